"""From numba functions to an object file that any later process can load: no numba, no Python, no address in it.

numba compiles and optimizes; what is kept is its LLVM code without the wrappers that call Python, each function
behind a plain C entry, linked into one module and turned into machine code for this CPU by llvmlite.
"""

import re

import llvmlite.binding as llvm

from .machine import target_machine

# Arrays over XLA's memory own nothing, so numba's reference counts count nothing.
_COUNTING = r"^(declare [^\n]*@NRT_(inc|dec)ref\([^\n]*|define [^\n]*@NRT_(inc|dec)ref\(.*?^})"
_NOTHING = "".join(f"define linkonce_odr void @NRT_{each}ref(ptr %0) {{ ret void }}\n" for each in ("inc", "dec"))
_LINKED = {"malloc", "free", "memcpy", "memmove", "memset"}  # what a process must offer
_NAME = r'@("[^"]+"|[-\w.$]+)'


def _with_entry(symbol, function):
    """The LLVM code of a cfunc `int64(int64)`, reached by a plain C function of that name."""
    text = function.inspect_llvm()
    wrapper = function.native_name  # calls into Python when an exception was raised, and these raise none
    inner = wrapper.removeprefix("cfunc.")
    start = re.search(rf'^define [^\n]*@"?{re.escape(wrapper)}"?\(', text, re.M).start()
    text = text[:start] + text[text.index("\n}\n", start) + 3 :]
    text = re.sub(_COUNTING, "", text, flags=re.M | re.S)
    return (
        text
        + _NOTHING
        + f"""
define i64 @{symbol}(i64 %x) {{
  %result = alloca i64
  %error = alloca ptr
  %status = call i32 @"{inner}"(ptr %result, ptr %error, i64 %x)
  %value = load i64, ptr %result
  ret i64 %value
}}
"""
    )


def _unresolved(text):
    """Names that the code uses and does not define."""
    lines = [line for line in text.splitlines() if not line.startswith("declare")]
    used = set(re.findall(_NAME, "\n".join(lines)))
    defined = set(re.findall(rf"^define [^\n]*?{_NAME}\(", text, re.M))
    defined |= set(re.findall(rf"^{_NAME} = (?!external)", text, re.M))
    return {name for name in used - defined if not name.startswith("llvm.")} - _LINKED


def build(functions):
    """The object file of `functions`, pairs of a symbol and a cfunc `int64(int64)`."""
    module = llvm.parse_assembly("")
    for symbol, function in functions:
        module.link_in(llvm.parse_assembly(_with_entry(symbol, function)))
    if missing := _unresolved(str(module)):
        raise RuntimeError(f"compiled kernels must stand alone, and these need {sorted(missing)}")
    symbols = {symbol for symbol, _ in functions}
    for function in module.functions:
        if not function.is_declaration and function.name not in symbols:
            function.linkage = "internal"
    machine = target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)
