// Every kernel. Those who include this define GTR_ENTRY first, or have it made templates or CUDA kernels.
#include "gtr/pagerank.hpp"
#include "gtr/kmeans_dense.hpp"
#include "gtr/tile_top_m.hpp"
