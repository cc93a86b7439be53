"""The data sets that the benchmark is built from: one file a release layout, and one for the shape shared by all."""

from gtr_gpu.multitableqa.sources.detect import KNOWN, read_source
from gtr_gpu.multitableqa.sources.source import Source

__all__ = ["KNOWN", "Source", "read_source"]
