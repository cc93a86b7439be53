"""K-means of sparse rows by kernels, against NumPy, SciPy and plain torch."""

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.spatial.distance import cdist

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch, native
from gtr_gpu.ops import kmeans as ops
from gtr_gpu.ragged import Ragged, SparseMatrix

SHAPES = [(1, 1, 1, 1), (50, 7, 5, 1), (700, 200, 33, 2), (300, 90, 64, 1), (20, 1500, 3, 7)]


def sparse_of(dense):
    matrix = scipy.sparse.csr_matrix(dense.numpy())
    columns = Ragged(torch.from_numpy(matrix.indices), torch.from_numpy(matrix.indptr).long())
    return SparseMatrix(columns, torch.from_numpy(matrix.data), dense.shape[1])


def random_rows(n, d, seed=0, density=0.2, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, d, generator=generator, dtype=dtype) * (torch.rand(n, d, generator=generator) < density)
    rows[3::5] = 0
    return rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "d", "k", "s"), SHAPES)
def test_assign_and_distances(device, n, d, k, s, dtype):
    rows = random_rows(n, d, dtype=dtype)
    centroids = random_rows(s * k, d, 1, 0.5, dtype).view(s, k, d)
    sparse = sparse_of(rows).to(device)
    labels, distances = (found.cpu() for found in ops.assign(sparse, centroids.to(device)))
    assert (labels.dtype, distances.dtype) == (torch.int32, dtype)
    for start in range(s):
        expected = cdist(rows.double(), centroids[start].double(), "sqeuclidean")
        near = np.take_along_axis(expected, labels[start, :, None].numpy(), 1)[:, 0]
        np.testing.assert_allclose(near, expected.min(1), rtol=1e-5)
        np.testing.assert_allclose(distances[start], expected.min(1), rtol=1e-4, atol=1e-5)
        for lying in (centroids[start], centroids[start].T.contiguous().T):
            found = ops.distances_to(sparse, lying.to(device), labels[start].to(device))
            np.testing.assert_allclose(found.cpu(), near, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "d", "k", "s"), SHAPES)
def test_update_and_product(device, n, d, k, s, dtype):
    rows = random_rows(n, d, dtype=dtype)
    labels = torch.randint(0, k, (s, n), generator=torch.Generator().manual_seed(0))
    sums, counts = (found.cpu() for found in ops.update(sparse_of(rows).to(device), labels.to(device), k + 1))
    assert sums.dtype == counts.dtype == torch.float64
    for start in range(s):
        member = scipy.sparse.csr_matrix((np.ones(n), (labels[start].numpy(), np.arange(n))), shape=(k + 1, n))
        np.testing.assert_allclose(sums[start], member @ rows.double().numpy(), rtol=1e-12, atol=1e-12)
        assert counts[start].tolist() == np.bincount(labels[start], minlength=k + 1).tolist()
    dense = random_rows(d, k, 2, dtype=dtype)
    product = ops.sparse_product(sparse_of(rows).to(device), dense.to(device))
    np.testing.assert_allclose(product.cpu(), rows.double().numpy() @ dense.double().numpy(), rtol=1e-4, atol=1e-5)


def test_ties_equal_rows_and_rows_of_zeros(device):
    centroids = torch.tensor([[5.0, 5.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], device=device)
    rows = sparse_of(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])).to(device)
    labels, distances = ops.assign(rows, centroids)
    assert (labels.tolist(), distances.tolist()) == ([1, 1, 1], [0.0, 1.0, 1.0])
    rows = random_rows(200, 40, density=0.3) * 1e3
    assert ops.assign(sparse_of(rows).to(device), rows[:60].to(device))[1][:60].tolist() == [0.0] * 60
    nothing = sparse_of(torch.zeros(2, 3)).to(device)
    sums, counts = ops.update(nothing, torch.zeros(2, dtype=torch.int32, device=device), 2)
    assert (float(sums.abs().sum()), counts.tolist()) == (0, [2, 0])
    labels, distances = ops.assign(nothing.slice(0, 0), torch.ones(2, 3, device=device))
    assert labels.shape == distances.shape == (0,)


def test_blocks_are_added_in_their_order_and_threads_change_nothing(device):
    rows = random_rows(ops.SUM_BLOCK + 500, 3, density=0.5)
    labels = torch.arange(rows.shape[0]) % 7
    cut = ops.SUM_BLOCK
    whole, counts = ops.update(sparse_of(rows).to(device), labels.to(device), 7)
    parts = [
        ops.update(sparse_of(rows[part]).to(device), labels[part].to(device), 7)
        for part in (slice(0, cut), slice(cut, None))
    ]
    assert torch.equal(whole, parts[0][0] + parts[1][0])
    assert torch.equal(counts, parts[0][1] + parts[1][1])
    threads = torch.get_num_threads()
    found = []
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        one = sparse_of(rows[:5000]).to(device)
        centroids = random_rows(9, 3, 1, 1.0).to(device)
        found.append((*ops.assign(one, centroids), *ops.update(one, labels[:5000].to(device), 7)))
    torch.set_num_threads(threads)
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_equals_the_reference(device):
    rows, centroids = sparse_of(random_rows(900, 300)), random_rows(64, 300, 1, 0.3)
    with dispatch.use("reference"):
        labels, distances = ops.assign(rows, centroids)
        sums, counts = ops.update(rows, labels, 64)
    found = ops.assign(rows.to(device), centroids.to(device))
    assert (found[0].cpu() != labels).float().mean() < 0.01
    torch.testing.assert_close(found[1].cpu(), distances, rtol=1e-5, atol=1e-5)
    again = ops.update(rows.to(device), labels.to(device), 64)
    torch.testing.assert_close(again[0].cpu(), sums, rtol=1e-12, atol=1e-12)
    assert torch.equal(again[1].cpu(), counts)


def test_wrong_arguments_are_named():
    rows = sparse_of(torch.ones(2, 3))
    with pytest.raises(GTRError, match="rows must have 4 columns"):
        ops.assign(rows, torch.ones(2, 4))
    with pytest.raises(GTRError, match="labels must be from 0 to 1"):
        ops.update(rows, torch.tensor([0, 2]), 2)
    with pytest.raises(GTRError, match="dense must be"):
        ops.sparse_product(rows, torch.ones(3, 2).half())


@pytest.mark.parametrize("columns", [[2, 0], [1, 1]])
def test_columns_that_do_not_rise_are_refused_by_kernels(columns):
    if native.extension() is None:
        pytest.skip("installed without a C++ compiler")
    rows = SparseMatrix(Ragged.from_rows([[0, 2], columns]), torch.ones(4), 3)
    with dispatch.use("native"), pytest.raises(GTRError, match=r"rows\.columns must rise within each row"):
        ops.update(rows, torch.zeros(2, dtype=torch.int32), 1)


def test_the_room_of_earlier_sums_is_used_where_it_fits(device):
    dense = torch.rand(50, 7, generator=torch.Generator().manual_seed(3)).round(decimals=1)
    entries = dense.nonzero(as_tuple=True)
    rows = SparseMatrix.from_entries(*entries, dense[entries], (50, 7)).to(device)
    labels = torch.arange(50, device=device) % 5
    expected, counts = ops.update(rows, labels, 5)
    expected = expected.clone()
    other = ops.update(rows, labels.flip(0), 5)[0]
    for room in (other, torch.full((4, 7), 9.0, dtype=torch.float64, device=device), other[:, :3], None):
        found, found_counts = ops.update(rows, labels, 5, room)
        assert torch.equal(found, expected)
        assert torch.equal(found_counts, counts)
