"""Variable-length batches: the one shape of tokens, cluster members, candidates and edges, never padded."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Said once by torch of the products that the walk uses, in programs whose users can't do anything about it.
warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)

INDEX_DTYPE = torch.int32
OFFSET_DTYPE = torch.int64


@dataclass(frozen=True)
class Ragged:
    """A batch of B rows of different lengths, one after the other.

    Attributes:
        values: All rows' items, `[T, ...]`, any dtype.
        offsets: Where each row starts and the last one ends, `[B + 1]`, int64, from 0 to T, never falling.
    """

    values: Tensor
    offsets: Tensor

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int] | Tensor], dtype: torch.dtype = INDEX_DTYPE) -> Ragged:
        """Builds a batch from a sequence of rows of numbers."""
        tensors = [torch.as_tensor(row, dtype=dtype) for row in rows]
        values = torch.cat(tensors) if tensors else torch.empty(0, dtype=dtype)
        return cls.from_lengths(values, torch.tensor([len(row) for row in tensors], dtype=OFFSET_DTYPE))

    @classmethod
    def from_lengths(cls, values: Tensor, lengths: Tensor) -> Ragged:
        """Builds a batch from items that are already in row order and the rows' lengths `[B]`."""
        return cls(values, offsets_from_lengths(lengths))

    @classmethod
    def from_segments(cls, values: Tensor, segment_ids: Tensor, n_rows: int) -> Ragged:
        """Groups items by their row number `[T]`; items of one row keep their order."""
        order = torch.argsort(segment_ids, stable=True)
        return cls.from_lengths(values[order], torch.bincount(segment_ids, minlength=n_rows))

    def __len__(self) -> int:
        return self.offsets.numel() - 1

    def __getitem__(self, row: int) -> Tensor:
        """The items of one row, a view `[length, ...]`."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a batch of {len(self)}")
        row %= len(self)
        return self.values[int(self.offsets[row]) : int(self.offsets[row + 1])]

    @property
    def device(self) -> torch.device:
        """Where the items are."""
        return self.values.device

    @property
    def lengths(self) -> Tensor:
        """The number of items of each row, `[B]`, int64."""
        return self.offsets.diff()

    def segment_ids(self) -> Tensor:
        """The row number of each item, `[T]`, int64."""
        rows = torch.arange(len(self), device=self.device)
        return torch.repeat_interleave(rows, self.lengths, output_size=self.values.shape[0])

    def positions(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Where the items of some rows lie in `values`, row after row.

        Args:
            rows: Row numbers `[R]`, in any order, repeats allowed.

        Returns:
            The positions `[S]`, int64, and the offsets of the selection `[R + 1]`, int64.
        """
        rows = rows.long()
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        offsets = offsets_from_lengths(lengths)
        shift = torch.repeat_interleave(self.offsets[rows] - offsets[:-1], lengths)
        return torch.arange(shift.numel(), device=self.device) + shift, offsets

    def select(self, rows: Tensor) -> Ragged:
        """The batch of the given rows `[R]`, in that order."""
        positions, offsets = self.positions(rows)
        return Ragged(self.values[positions], offsets)

    def slice(self, start: int, stop: int) -> Ragged:
        """The batch of the rows from `start` up to `stop`; values are a view."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return Ragged(self.values[first:last], self.offsets[start : stop + 1] - first)

    def to(self, device: torch.device | str) -> Ragged:
        """The same batch on another device."""
        return Ragged(self.values.to(device), self.offsets.to(device))

    def to_lists(self) -> list[list[float]]:
        """The rows as Python lists, for small batches, tests and printing."""
        return [self[row].tolist() for row in range(len(self))]


@dataclass(frozen=True)
class SparseMatrix:
    """A sparse matrix by rows (CSR): a Ragged of column numbers with one weight each.

    Attributes:
        columns: Column numbers, rising and distinct within each row; values int32 `[nnz]`, offsets int64 `[N + 1]`.
        weights: The entries `[nnz]`, float32 (or integer counts).
        n_columns: The number of columns V.
    """

    columns: Ragged
    weights: Tensor
    n_columns: int

    @classmethod
    def from_entries(cls, rows: Tensor, columns: Tensor, weights: Tensor, shape: tuple[int, int]) -> SparseMatrix:
        """Builds a matrix from entries `[T]` in any order; entries at the same place are added."""
        n_rows, n_columns = shape
        keys = rows.long() * n_columns + columns.long()
        unique, inverse = torch.unique(keys, return_inverse=True)
        summed = torch.zeros(unique.numel(), dtype=weights.dtype, device=weights.device).index_add_(0, inverse, weights)
        lengths = torch.bincount(unique // max(n_columns, 1), minlength=n_rows)
        return cls(Ragged.from_lengths((unique % max(n_columns, 1)).to(INDEX_DTYPE), lengths), summed, n_columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows N and columns V."""
        return len(self.columns), self.n_columns

    @property
    def device(self) -> torch.device:
        """Where the entries are."""
        return self.columns.device

    def row_ids(self) -> Tensor:
        """The row number of each entry, `[nnz]`, int64."""
        return self.columns.segment_ids()

    def transpose(self) -> SparseMatrix:
        """The same matrix by columns, as the rows of a new one `[V, N]`."""
        order = torch.argsort(self.columns.values, stable=True)
        lengths = torch.bincount(self.columns.values, minlength=self.n_columns)
        rows = Ragged.from_lengths(self.row_ids()[order].to(INDEX_DTYPE), lengths)
        return SparseMatrix(rows, self.weights[order], len(self.columns))

    def select(self, rows: Tensor) -> SparseMatrix:
        """The matrix of the given rows `[R]`, in that order."""
        positions, offsets = self.columns.positions(rows)
        return SparseMatrix(Ragged(self.columns.values[positions], offsets), self.weights[positions], self.n_columns)

    def slice(self, start: int, stop: int) -> SparseMatrix:
        """The rows from `start` up to `stop`, as views."""
        first, last = int(self.columns.offsets[start]), int(self.columns.offsets[stop])
        return SparseMatrix(self.columns.slice(start, stop), self.weights[first:last], self.n_columns)

    def with_weights(self, weights: Tensor) -> SparseMatrix:
        """The same places with other entries `[nnz]`."""
        return SparseMatrix(self.columns, weights, self.n_columns)

    def normalized(self) -> SparseMatrix:
        """The rows divided by their Euclidean length; all-zero rows stay zero."""
        rows = self.row_ids()
        squares = torch.zeros(len(self.columns), dtype=torch.float64, device=self.device)
        squares.index_add_(0, rows, self.weights.double().square())
        lengths = squares.sqrt().clamp_min(torch.finfo(torch.float64).tiny)
        return self.with_weights((self.weights / lengths[rows]).to(self.weights.dtype))

    def to_torch(self) -> Tensor:
        """A `torch.sparse_csr` tensor over the same numbers, for products."""
        columns = self.columns
        return torch.sparse_csr_tensor(
            columns.offsets, columns.values.long(), self.weights, self.shape, check_invariants=False
        )

    def to(self, device: torch.device | str) -> SparseMatrix:
        """The same matrix on another device."""
        return SparseMatrix(self.columns.to(device), self.weights.to(device), self.n_columns)


def offsets_from_lengths(lengths: Tensor) -> Tensor:
    """The running sums of lengths `[B]`, with a 0 before them: `[B + 1]`, int64."""
    offsets = torch.zeros(lengths.numel() + 1, dtype=OFFSET_DTYPE, device=lengths.device)
    torch.cumsum(lengths, 0, out=offsets[1:])
    return offsets


def cat_ragged(batches: Sequence[Ragged]) -> Ragged:
    """The rows of several batches, one batch after the other."""
    lengths = torch.cat([batch.lengths for batch in batches])
    return Ragged.from_lengths(torch.cat([batch.values for batch in batches]), lengths)


def stack_sparse(matrices: Sequence[SparseMatrix]) -> SparseMatrix:
    """The rows of several matrices below each other; the widest gives the number of columns."""
    columns = cat_ragged([matrix.columns for matrix in matrices])
    weights = torch.cat([matrix.weights for matrix in matrices])
    return SparseMatrix(columns, weights, max(matrix.n_columns for matrix in matrices))
