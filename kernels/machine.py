"""The machine that kernels are compiled for and loaded on, without numba."""

import llvmlite.binding as llvm


def target_machine():
    """This CPU with all its features, and code that can be loaded anywhere."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, codemodel="jitdefault", jit=True
    )
