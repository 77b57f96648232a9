"""numba's front end: `njit` and `cfunc` that give LLVM code, which `build` optimizes and compiles once, as a whole.

By itself numba also optimizes every function and emits its machine code, with all that it calls inlined, and wraps it
for Python: more than half of its time, for code that no kernel runs. It does so in the code library that a function's
compiler is given; here that is one which only collects. numba does not promise what it asks of a library, so a first
function is compiled to find out, and where it fails numba works in its own way, which takes longer.
"""

import functools

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core.compiler import Compiler

OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Code:
    """The LLVM modules of a function, and the libraries of what it calls."""

    recorded_timings = None

    def __init__(self, codegen):
        self._make_module = codegen._create_empty_module
        self._modules, self._callees, self._reload_init = [], {}, set()

    def create_ir_module(self, name):
        return self._make_module(name)

    def add_ir_module(self, module):
        self._modules.append(str(module))

    def add_linking_library(self, library):
        self._callees[library] = None

    def get_pointer_to_function(self, name):
        return 0

    @property
    def codegen(self):
        return self

    def set_env(self, name, environment):
        """Nothing is to run, so no code needs its environment."""

    def _ensure_finalized(self):
        """Nothing is to be done before others may link this library."""

    def _reached(self, seen):
        """The modules of all that is reached, each once."""
        seen.add(self)
        yield from map(llvm.parse_assembly, self._modules)
        for library in self._callees:
            if library in seen:
                continue
            if isinstance(library, _Code):
                yield from library._reached(seen)
            else:
                seen.add(library)
                yield library._get_module_for_linking().clone()

    def _get_module_for_linking(self):
        linked = llvm.parse_assembly("")
        for module in self._reached(set()):
            linked.link_in(module)
        for function in linked.functions:
            if not function.is_declaration:
                function.linkage = "linkonce_odr"  # two functions of a kernel may call a third
        return linked

    def get_llvm_str(self):
        return str(self._get_module_for_linking())


class _FrontEnd(Compiler):
    def define_pipelines(self):
        self.state.library = _Code(self.state.targetctx.codegen())
        return super().define_pipelines()


@functools.cache
def usable():
    """Whether this numba's front end can be had alone: tried with a function that calls another."""
    try:
        callee = numba.njit(pipeline_class=_FrontEnd, **OPTIONS)(lambda x: x + 1)
        caller = numba.cfunc(types.int64(types.int64), pipeline_class=_FrontEnd)(lambda x: callee(x))
        llvm.parse_assembly(caller.inspect_llvm()).verify()
    except Exception:  # whatever it may be, there is another way
        return False
    return True


class _Kernel(_FrontEnd):
    def define_pipelines(self):
        return super().define_pipelines() if usable() else Compiler.define_pipelines(self)


njit = functools.partial(numba.njit, pipeline_class=_Kernel, **OPTIONS)
cfunc = functools.partial(numba.cfunc, pipeline_class=_Kernel)
