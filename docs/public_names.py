"""What the API page shows: `from ._x import name as name` makes a name public; the command line is no module of it."""

from typing import Any

import griffe


class PublicNames(griffe.Extension):
    """Tells Griffe, which reads the modules for mkdocstrings."""

    def on_alias_instance(self, *, node: Any, alias: griffe.Alias, **kwargs: Any):
        names = getattr(node, "names", ())
        alias.public = any(imported.name == imported.asname == alias.name for imported in names)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any):
        for name in [name for name in cls.members if name.startswith("__array_")]:  # called by NumPy alone
            del cls.members[name]

    def on_module_instance(self, *, mod: griffe.Module, **kwargs: Any):
        if mod.name == "__main__":
            mod.public = False
