"""Sparse random matrices that live in their seed: connectivity regenerated inside every product, never stored."""

from . import _benchmark as _benchmark
from . import config as config
from . import plot as plot
from ._functions import binary_jitsmm as binary_jitsmm
from ._functions import binary_jitsmv as binary_jitsmv
from ._functions import jits as jits
from ._functions import jits_to_csr as jits_to_csr
from ._functions import jitsmm as jitsmm
from ._functions import jitsmv as jitsmv
from ._matrix import JITScalarMatrix as JITScalarMatrix
from ._op import BenchmarkConfig as BenchmarkConfig
from ._op import XLACustomKernel as XLACustomKernel
from ._op import general_batching_rule as general_batching_rule
from ._own_kernels import cuda_kernel as cuda_kernel
from ._own_kernels import numba_kernel as numba_kernel
from ._products import binary_jitsmm_p as binary_jitsmm_p
from ._products import binary_jitsmv_p as binary_jitsmv_p
from ._products import jitsmm_p as jitsmm_p
from ._products import jitsmv_p as jitsmv_p
from ._spectral import spectral_radius as spectral_radius
from ._spikes import Spikes as Spikes

__version__ = "0.1.0"
