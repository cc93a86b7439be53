// The entries as CUDA kernels; NVRTC and nvcc both start here.
#include "gtr/all.hpp"
