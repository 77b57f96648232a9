"""A numba cfunc as an XLA FFI handler: no Python on the call path, work spread over XLA's own thread pool.

The handler reads XLA's call frame by the byte offsets of `xla/ffi/api/c_api.h`, which are stable
within a major version and checked by `layout.py`. A kernel is a set of numba functions over a `job`, a
row of 64-bit words: `plan(job, threads)` fills in what the operands do not say and how many chunks each
phase has, then each phase's `body(job, chunk)` runs for every chunk, on any thread, in any order.

Chunks are claimed from an atomic counter in a heap block that caller and tasks own by reference
count. The caller drains the same counter and then waits only for chunks that a running thread holds:
it cannot deadlock when every thread of the pool is a caller, and a task that starts late finds no
chunk and touches nothing but its own reference. Addresses of this process never enter compiled code:
tasks are external symbols by name.
"""

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .frontend import cfunc, njit
from .lanes import lesser
from .layout import (
    API,
    ARGS,
    ARRAY_DATA,
    ATTRS,
    BUFFER_DATA,
    CONTEXT,
    ERROR_CREATE,
    EXTENSION,
    NUM_THREADS,
    RETS,
    SCHEDULE,
    version,
)
from .layout import layout_problem as layout_problem

I64 = ir.IntType(64)

# Words of a job. Operands and results are addresses.
TABLE, SEED, OFFSET, OPERAND, RESULT, CONFIG = range(6)
CHUNKS, CHUNKS2, SCRATCH, SCRATCH2, FREE = 6, 7, 8, 9, 10  # FREE: first word that a kernel may use
JOB_WORDS = 32
OPERANDS = 4

# Words of the state that the threads of one phase share.
NEXT, DONE, TOTAL, REFERENCES, JOB = range(5)


def _loader(bits, t):
    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()))

        return t(types.int64), codegen

    return load


def _storer(bits, t):
    @intrinsic
    def store(typingctx, address, value):
        def codegen(context, builder, signature, args):
            builder.store(args[1], builder.inttoptr(args[0], ir.IntType(bits).as_pointer()))
            return context.get_dummy_value()

        return types.void(types.int64, t), codegen

    return store


load64, load32 = _loader(64, types.int64), _loader(32, types.int32)
store64, store32 = _storer(64, types.int64), _storer(32, types.int32)


@intrinsic
def view(typingctx, address, dtype):
    """An address as a pointer to elements, to be indexed: far less code than an array, and no length or checks."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(dtype.instance_type)(types.int64, dtype), codegen


@intrinsic
def address(typingctx, pointer):
    """The address that a view points to."""
    return types.int64(pointer), lambda context, builder, signature, args: builder.ptrtoint(args[0], I64)


@intrinsic
def call1(typingctx, function, argument):
    """Call a C function `int64(int64)` by its address."""

    def codegen(context, builder, signature, args):
        callee = builder.inttoptr(args[0], ir.FunctionType(I64, [I64]).as_pointer())
        return builder.call(callee, [args[1]])

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def fetch_add(typingctx, address, value):
    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", builder.inttoptr(args[0], I64.as_pointer()), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def load_acquire(typingctx, address):
    def codegen(context, builder, signature, args):
        return builder.load_atomic(builder.inttoptr(args[0], I64.as_pointer()), "acquire", 8)

    return types.int64(types.int64), codegen


def stack(words):
    """An intrinsic that gives the address of `words` 64-bit words in the caller's frame."""

    @intrinsic
    def allocate(typingctx):
        def codegen(context, builder, signature, args):
            return builder.ptrtoint(cgutils.alloca_once(builder, I64, size=words), I64)

        return types.int64(), codegen

    return allocate


def symbol(name):
    """An intrinsic that gives the address of an external symbol, resolved by name when the code is loaded."""

    @intrinsic
    def address(typingctx):
        def codegen(context, builder, signature, args):
            kind = ir.FunctionType(I64, [I64])
            return builder.ptrtoint(cgutils.get_or_insert_function(builder.module, kind, name), I64)

        return types.int64(), codegen

    return address


malloc = types.ExternalFunction("malloc", types.int64(types.int64))
free = types.ExternalFunction("free", types.void(types.int64))


def _word_pointer(builder, job, index):
    return builder.inttoptr(builder.add(job, builder.shl(index, ir.Constant(I64, 3))), I64.as_pointer())


@intrinsic  # and no function: numba would compile one for every constant index
def word(typingctx, job, index):
    """Word `index` of a job."""

    def codegen(context, builder, signature, args):
        return builder.load(_word_pointer(builder, *args))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def set_word(typingctx, job, index, value):
    def codegen(context, builder, signature, args):
        builder.store(args[2], _word_pointer(builder, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@njit
def release(state):
    if fetch_add(state + 8 * REFERENCES, -1) == 1:
        free(state)


def metadata_reply(traits=0):
    """A function that answers XLA's metadata query, if the frame carries one, with the installed version."""
    major, minor = (np.int32(part) for part in version())
    traits = np.int32(traits)

    @njit
    def answered_metadata(frame):
        extension = load64(frame + EXTENSION)
        while extension != 0:
            if load32(extension + 8) == 1:  # the metadata extension: version, then traits
                metadata = load64(extension + 24)
                store32(metadata + 24, major)
                store32(metadata + 28, minor)
                store32(metadata + 32, traits)
                return True
            extension = load64(extension + 16)
        return False

    return answered_metadata


_scratch = stack(8)


@njit
def error(frame, message):
    """What a handler returns to fail with the text at the address `message`."""
    args = _scratch()
    set_word(args, 0, 32)
    set_word(args, 1, 0)
    set_word(args, 2, message)
    set_word(args, 3, 13)  # INTERNAL
    return call1(load64(load64(frame + API) + ERROR_CREATE), args)


@njit
def pool_size(frame):
    """Threads of XLA's pool, or 1 where there is none."""
    args = _scratch()
    set_word(args, 0, 32)
    set_word(args, 1, 0)
    set_word(args, 2, load64(frame + CONTEXT))
    set_word(args, 3, args + 56)
    set_word(args, 7, 1)
    if call1(load64(load64(frame + API) + NUM_THREADS), args) != 0:
        return 1
    return word(args, 7)


@njit
def run_phase(frame, task, job, chunks, threads):
    """Run `task` over `chunks` chunks and return when all are done."""
    helpers = lesser(threads, chunks) - 1
    state = malloc(64)
    set_word(state, NEXT, 0)
    set_word(state, DONE, 0)
    set_word(state, TOTAL, chunks)
    set_word(state, REFERENCES, helpers + 2)  # the helpers', the caller's as a worker and as the one who waits
    set_word(state, JOB, job)
    args = _scratch()
    for _ in range(helpers):
        set_word(args, 0, 40)
        set_word(args, 1, 0)
        set_word(args, 2, load64(frame + CONTEXT))
        set_word(args, 3, task)
        set_word(args, 4, state)
        if call1(load64(load64(frame + API) + SCHEDULE), args) != 0:
            release(state)
    call1(task, state)
    while load_acquire(state + 8 * DONE) < chunks:
        continue
    release(state)


def _task(body):
    """The C function that a thread runs: claim chunks until there are none."""

    @cfunc(types.int64(types.int64))
    def task(state):
        total = word(state, TOTAL)
        chunk = fetch_add(state + 8 * NEXT, 1)
        while chunk < total:
            body(word(state, JOB), chunk)
            fetch_add(state + 8 * DONE, 1)
            chunk = fetch_add(state + 8 * NEXT, 1)
        release(state)
        return 0

    return task


def handler_functions(name, plan, body, body2=None):
    """The FFI handler of a kernel (see the top of this file) and its tasks, compiled: (symbol, cfunc) pairs."""
    tasks = [(f"{name}_task{phase}", _task(each)) for phase, each in enumerate((body, body2)) if each is not None]
    for task_symbol, task in tasks:
        if task.address:  # numba has made its own copy, and will load one of the handler that must find it
            llvmlite.binding.add_symbol(task_symbol, task.address)
    first = symbol(tasks[0][0])
    second = symbol(tasks[-1][0])
    answered_metadata = metadata_reply()
    job_storage = stack(JOB_WORDS)

    @cfunc(types.int64(types.int64))
    def handler(frame):
        if answered_metadata(frame):
            return 0
        job, operands = job_storage(), load64(frame + ARGS)
        for i in range(OPERANDS):
            set_word(job, i, load64(load64(operands + 8 * i) + BUFFER_DATA))
        set_word(job, RESULT, load64(load64(load64(frame + RETS)) + BUFFER_DATA))
        set_word(job, CONFIG, load64(load64(load64(frame + ATTRS)) + ARRAY_DATA))
        for i in range(CHUNKS, JOB_WORDS):
            set_word(job, i, 0)
        threads = pool_size(frame)
        plan(job, threads)
        if word(job, CHUNKS) > 0:
            run_phase(frame, first(), job, word(job, CHUNKS), threads)
        if word(job, CHUNKS2) > 0:
            run_phase(frame, second(), job, word(job, CHUNKS2), threads)
        free(word(job, SCRATCH))
        free(word(job, SCRATCH2))
        return 0

    return [(name, handler), *tasks]
