"""The two halves of a round of k-means against NumPy, SciPy and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.spatial.distance import cdist

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import _kmeans_dense
from gtr_gpu.ops import kmeans as ops
from gtr_gpu.ragged import Ragged, SparseMatrix


def sparse_of(dense):
    matrix = scipy.sparse.csr_matrix(dense.numpy())
    columns = Ragged(torch.from_numpy(matrix.indices), torch.from_numpy(matrix.indptr).long())
    return SparseMatrix(columns, torch.from_numpy(matrix.data), dense.shape[1])


def random_rows(n, d, seed=0, density=1.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator) * (torch.rand(n, d, generator=generator) < density)


@pytest.fixture(params=["dense", "sparse"])
def kind(request):
    return sparse_of if request.param == "sparse" else lambda dense: dense


@pytest.mark.parametrize("shape", [(1, 1, 1), (50, 7, 5), (3000, 20, 33)])
def test_assign_finds_the_nearest_centroid(kind, shape):
    n, d, k = shape
    rows, centroids = random_rows(n, d, density=0.5), random_rows(2 * k, d, 1).view(2, k, d)
    labels, distances = ops.assign(kind(rows), centroids)
    assert labels.dtype == torch.int32
    for start in range(2):
        expected = cdist(rows.double(), centroids[start].double(), "sqeuclidean")
        np.testing.assert_allclose(distances[start], expected.min(1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            np.take_along_axis(expected, labels[start, :, None].numpy(), 1)[:, 0], expected.min(1), rtol=1e-5
        )
        assert torch.equal(ops.nearest(kind(rows), centroids[start]), labels[start])
        alone = ops.assign(kind(rows), centroids[start])
        assert torch.equal(alone[0], labels[start])
        torch.testing.assert_close(alone[1], distances[start])


def test_ties_go_to_the_smaller_cluster(kind):
    centroids = torch.tensor([[5.0, 5.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    labels, distances = ops.assign(kind(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])), centroids)
    assert labels.tolist() == [1, 1, 1]
    assert distances.tolist() == [0.0, 1.0, 1.0]


def test_an_equal_row_has_distance_zero_and_far_data_keep_their_digits(kind):
    rows = random_rows(200, 40, density=0.3) * 1e3
    assert ops.assign(kind(rows), rows[:60].clone())[1][:60].tolist() == [0.0] * 60
    near = 1e4 + random_rows(200, 6)
    centroids = 1e4 + random_rows(9, 6, 1)
    expected = cdist(near.double(), centroids.double(), "sqeuclidean").min(1)
    labels, distances = ops.assign(near, centroids)
    np.testing.assert_allclose(distances, expected, rtol=1e-4)
    np.testing.assert_allclose(ops.distances_to(near, centroids, labels), expected, rtol=1e-5)


def test_distances_to_given_centroids(kind):
    rows, centroids = random_rows(300, 30, density=0.2), random_rows(8, 30, 1, 0.4)
    labels = torch.arange(300) % 8
    expected = ((rows.double() - centroids.double()[labels]) ** 2).sum(1)
    np.testing.assert_allclose(ops.distances_to(kind(rows), centroids, labels), expected, rtol=1e-5)


def test_update_sums_the_rows_of_each_cluster(kind):
    rows = random_rows(500, 12, density=0.5)
    labels = torch.randint(0, 5, (2, 500), generator=torch.Generator().manual_seed(0))
    labels[labels == 3] = 4
    sums, counts = ops.update(kind(rows), labels, 6)
    assert sums.dtype == counts.dtype == torch.float64
    for start in range(2):
        member = scipy.sparse.csr_matrix((np.ones(500), (labels[start].numpy(), np.arange(500))), shape=(6, 500))
        np.testing.assert_allclose(sums[start], member @ rows.double().numpy(), rtol=1e-12, atol=1e-12)
        assert counts[start].tolist() == np.bincount(labels[start], minlength=6).tolist()
    alone = ops.update(kind(rows), labels[1], 6)
    assert torch.equal(alone[0], sums[1])
    assert torch.equal(alone[1], counts[1])


def test_update_adds_blocks_in_their_order(kind):
    rows = random_rows(ops.SUM_BLOCK + 500, 3, density=0.5)
    labels = torch.arange(rows.shape[0]) % 7
    cut = ops.SUM_BLOCK
    whole, counts = ops.update(kind(rows), labels, 7)
    parts = [ops.update(kind(rows[part]), labels[part], 7) for part in (slice(0, cut), slice(cut, None))]
    assert torch.equal(whole, parts[0][0] + parts[1][0])
    assert torch.equal(counts, parts[0][1] + parts[1][1])


def test_no_rows_and_rows_of_zeros(kind):
    labels, distances = ops.assign(kind(torch.zeros(0, 3)), torch.ones(2, 3))
    assert labels.shape == distances.shape == (0,)
    labels, distances = ops.assign(kind(torch.zeros(2, 3)), torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.5]]))
    assert (labels.tolist(), distances.tolist()) == ([1, 1], [0.25, 0.25])
    sums, counts = ops.update(kind(torch.zeros(2, 3)), labels, 2)
    assert (sums.abs().sum(), counts.tolist()) == (0, [0, 2])


def test_half_precision_rows_are_read_as_they_are():
    rows, centroids = random_rows(100, 8).half(), random_rows(5, 8, 1)
    expected = ops.assign(rows.float(), centroids)
    found = ops.assign(rows, centroids)
    assert torch.equal(found[0], expected[0])
    assert found[1].dtype == torch.float32


def test_sparse_product_is_scipys():
    rows, dense = random_rows(60, 30, density=0.2), random_rows(30, 4, 1)
    expected = scipy.sparse.csr_matrix(rows.double().numpy()) @ dense.double().numpy()
    np.testing.assert_allclose(ops.sparse_product(sparse_of(rows), dense), expected, rtol=1e-5, atol=1e-6)


def test_folded_columns_keep_all_products():
    rows = random_rows(30, 120, density=0.03)
    rows[4] = 0
    rows[:, 0] = 1
    folded = ops.fold_columns(sparse_of(rows))
    assert folded.n_columns < 100
    dense = folded.to_torch().to_dense()
    np.testing.assert_allclose(dense @ dense.T, rows @ rows.T, rtol=1e-5, atol=1e-6)
    assert all(row.tolist() == sorted(set(row.tolist())) for row in (folded.columns[i] for i in range(30)))
    assert ops.fold_columns(sparse_of(torch.zeros(3, 5))).shape == (3, 1)


@pytest.mark.parametrize("dim", [1, 6, 17, 100, 384, 768, 1500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dense_rows_of_all_widths_and_types(device, dim, dtype):
    rows = random_rows(61, dim).to(dtype)
    real = torch.float64 if dtype == torch.float64 else torch.float32
    centroids = random_rows(14, dim, 1).to(real).view(2, 7, dim)
    labels, distances = (found.cpu() for found in ops.assign(rows.to(device), centroids.to(device)))
    assert torch.equal(ops.nearest(rows.to(device), centroids.to(device)).cpu(), labels)
    sums, counts = (found.cpu() for found in ops.update(rows.to(device), labels.to(device), 7))
    for start in range(2):
        expected = cdist(rows.double(), centroids[start].double(), "sqeuclidean")
        np.testing.assert_allclose(distances[start], expected.min(1), rtol=1e-5, atol=1e-6)
        given = ops.distances_to(rows.to(device), centroids[start].to(device), labels[start].to(device))
        np.testing.assert_allclose(given.cpu(), expected.min(1), rtol=1e-5, atol=1e-6)
        member = np.eye(7)[labels[start]]
        np.testing.assert_allclose(sums[start], member.T @ rows.double().numpy(), rtol=1e-12, atol=1e-12)
        assert counts[start].tolist() == member.sum(0).tolist()


@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.parametrize(("n", "d", "k"), [(0, 3, 256), (1, 1, 300), (700, 17, 57), (300, 384, 1024)])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e3, 3.0), (1e-3, 5.0)])
def test_many_clusters_are_compared_exactly_whatever_the_products_are_rounded_to(
    device, monkeypatch, halved, n, d, k, scale, shift
):
    if device.type == "cpu":
        monkeypatch.setattr(_kmeans_dense, "multiplies_bf16", lambda _: halved)
    rows = random_rows(n, d) * scale + shift
    # Some centroids are near each other, some equal, some equal to rows.
    centroids = (random_rows(2 * k, d, 1) * scale + shift).view(2, k, d)
    centroids[0, 10:20] = centroids[0, 0] + 1e-4 * scale * random_rows(10, d, 2)
    centroids[1, 5] = centroids[1, k - 1]
    centroids[0, k - min(n, 5) :] = rows[:5]
    labels, distances = (found.cpu() for found in ops.assign(rows.to(device), centroids.to(device)))
    assert torch.equal(ops.nearest(rows.to(device), centroids.to(device)).cpu(), labels)
    for start in range(2):
        expected = cdist(rows.double(), centroids[start].double(), "sqeuclidean")
        taken = np.take_along_axis(expected, labels[start, :, None].numpy(), 1)[:, 0]
        np.testing.assert_allclose(taken, expected.min(1, initial=np.inf), rtol=1e-5, atol=1e-9 * scale**2)
        np.testing.assert_allclose(distances[start], taken, rtol=1e-3, atol=1e-6 * (scale + shift) ** 2)
        assert (labels[start] != k - 1).all() or start == 0, "of equal centroids the smaller one is taken"


@pytest.mark.parametrize("halved", [True, False])
def test_equal_centroids_and_rows_of_zeros_go_to_the_smallest_of_many_clusters(device, monkeypatch, halved):
    if device.type == "cpu":
        monkeypatch.setattr(_kmeans_dense, "multiplies_bf16", lambda _: halved)
    rows, centroids = torch.zeros(5, 6, device=device), torch.ones(300, 6, device=device)
    labels, distances = ops.assign(rows, centroids)
    assert labels.tolist() == [0] * 5
    assert distances.tolist() == [6.0] * 5


def test_dense_ties_far_rows_and_equal_rows(device):
    centroids = torch.tensor([[5.0, 5.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], device=device)
    labels, distances = ops.assign(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], device=device), centroids)
    assert labels.tolist() == [1, 1, 1]
    assert distances.tolist() == [0.0, 1.0, 1.0]
    near, far = 1e4 + random_rows(200, 6), 1e4 + random_rows(9, 6, 1)
    labels, distances = ops.assign(near.to(device), far.to(device))
    expected = cdist(near.double(), far.double(), "sqeuclidean")
    np.testing.assert_allclose(distances.cpu(), expected.min(1), rtol=1e-4)
    rows = (random_rows(200, 40, density=0.3) * 1e3).to(device)
    assert ops.assign(rows, rows[:60].clone())[1][:60].tolist() == [0.0] * 60


@pytest.mark.parametrize(
    ("n", "d", "n_clusters"), [(ops.SUM_BLOCK + 900, 37, 6), (ops.SUM_BLOCK + 900, 37, 2500), (75, 30, 1100)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dense_sums_of_few_clusters_and_many(device, n, d, n_clusters, dtype):
    # Of many clusters, some have members of one block alone, and the sums of all don't stay in a cache.
    rows = random_rows(n, d).to(dtype)
    labels = (torch.arange(rows.shape[0]) ** 2 % n_clusters)[None].repeat(2, 1)
    labels[1, :900] = 3
    sums, counts = ops.update(rows.to(device), labels.to(device), n_clusters)
    for start in range(2):
        expected = torch.zeros(n_clusters, d, dtype=torch.float64).index_add_(0, labels[start], rows.double())
        np.testing.assert_allclose(sums[start].cpu(), expected, rtol=1e-9, atol=1e-9)
        assert torch.equal(counts[start].cpu(), labels[start].bincount(minlength=n_clusters).double())


@pytest.mark.parametrize("n_clusters", [3, 50, 2100])
def test_dense_sums_are_the_same_bytes_on_one_thread_and_two(n_clusters):
    rows = random_rows(2200, 300)
    labels = torch.randint(0, n_clusters, (2200,), generator=torch.Generator().manual_seed(0))
    threads, found = torch.get_num_threads(), []
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        found.append((ops.update(rows, labels, n_clusters)[0], ops.distances_to(rows, rows[:n_clusters], labels)))
    torch.set_num_threads(threads)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.assign(torch.zeros(2, 3), torch.zeros(2, 4)), r"rows must have the shape \[any, 4\]"),
        (lambda: ops.assign(torch.zeros(2, 3), torch.zeros(0, 3)), "centroids must hold at least one"),
        (lambda: ops.assign(torch.zeros(2, 3).int(), torch.zeros(1, 3)), "rows must be float32"),
        (lambda: ops.assign(torch.zeros(2, 3), torch.zeros(1, 3).half()), "centroids must be float32"),
        (lambda: ops.assign(sparse_of(torch.zeros(2, 3)), torch.zeros(1, 4)), "rows must have 4 columns"),
        (lambda: ops.update(torch.zeros(2, 3), torch.tensor([0, 2]), 2), "labels must be from 0 to 1, got 2"),
        (lambda: ops.update(torch.zeros(2, 3), torch.zeros(3).int(), 2), "labels must have the shape"),
        (lambda: ops.distances_to(torch.zeros(2, 3), torch.zeros(1, 3), torch.tensor([0, -1])), "labels must be from"),
        (lambda: ops.distances_to(torch.zeros(2, 3), torch.zeros(1, 3), torch.zeros(2)), "labels must be int32"),
    ],
)
def test_arguments_are_checked(call, message):
    with pytest.raises(GTRError, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(("s", "k", "d"), [(1, 1, 1), (2, 3, 17), (1, 64, 700), (3, 5, 20_000), (2, 2, 0)])
def test_means_and_moves(device, dtype, by_column, s, k, d):
    generator = torch.Generator().manual_seed(d)
    sums = torch.randn(s, k, d, generator=generator, dtype=torch.float64).to(device)
    counts = torch.randint(0, 4, (s, k), generator=generator).double().to(device)
    before = torch.randn(s, k, d, generator=generator).to(device, dtype)
    if by_column:
        sums = sums.flatten(0, 1).T.contiguous().T.view(s, k, d)
    found, moves = ops.means(sums, counts, before)
    whole = sums.cpu().numpy() / np.maximum(counts.cpu().numpy(), 1)[..., None]
    expected = np.where(counts.cpu().numpy()[..., None] > 0, whole, before.cpu().numpy()).astype(
        found.cpu().numpy().dtype
    )
    assert (found.dtype, moves.dtype, moves.shape) == (dtype, torch.float64, (s,))
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-6)
    apart = (expected.astype(np.float64) - before.double().cpu().numpy()) ** 2
    np.testing.assert_allclose(moves.cpu().numpy(), apart.sum((1, 2)), rtol=1e-5, atol=1e-12)
