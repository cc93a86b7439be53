// Every kernel. Those who include this define GTR_ENTRY first, or have it made templates or CUDA kernels.
#include "gtr/counts.hpp"
#include "gtr/kmeans_dense.hpp"
#include "gtr/lexical.hpp"
#include "gtr/pagerank.hpp"
#include "gtr/seeds.hpp"
#include "gtr/segments.hpp"
#include "gtr/tile_top_m.hpp"
#include "gtr/transfer.hpp"
