// K-means on dense rows: each row's nearest centroid from a tile of products, distances, and sums of each cluster's rows.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

GTR_FN f64 to_f64(f64 value) { return value; }

template <class T>
GTR_FN f64 to_f64(T value) {
    return static_cast<f64>(to_f32(value));
}

// A number in the type that its row is compared in: float32, or float64 for rows of float64.
GTR_FN f64 to_real(f64 value) { return value; }

template <class T>
GTR_FN f32 to_real(T value) {
    return to_f32(value);
}

template <class T, class Real, class Team>
GTR_FN Real squared_distance(Team& team, i64 dim, const T* row, const Real* centroid) {
    return team.sum(dim, [&](i64 i) {
        const Real apart = to_real(row[i]) - centroid[i];
        return apart * apart;
    });
}

// The nearest centroid of a row in each start: that with the greatest product less half its squared length. Ties go to
// the smaller cluster. Distances, which may be null, are those by difference,
// which lose no digits.
template <class Real, class Team>
GTR_FN void nearest(Team& team, const Real* products, const Real* halves, const Real* row, const Real* centroids,
                    i64 dim, i64 n_starts, i64 n_clusters, i64 n_rows, i32* labels, Real* distances) {
    for (i64 start = 0; start < n_starts; ++start) {
        const i64 first = start * n_clusters;
        const Real* own = products + first;
        const Real* half = halves + first;
        const Real best = team.max(n_clusters, lowest<Real>(), [&](i64 k) { return own[k] - half[k]; });
        const i32 none = -static_cast<i32>(n_clusters);
        const i32 least = team.max(n_clusters, none, [&](i64 k) {
            return own[k] - half[k] == best ? -static_cast<i32>(k) : none;
        });
        // Where no product is a number, neither is a distance.
        const i64 found = least == none ? 0 : -least;
        team.one([&] { labels[start * n_rows] = static_cast<i32>(found); });
        if (!distances) continue;
        const Real distance = squared_distance(team, dim, row, centroids + (first + found) * dim);
        team.one([&] { distances[start * n_rows] = distance; });
    }
}

// A row in bf16, and how far products of it with centroids in bf16 may be from exact ones: |x'c' - xc| is at most
// |x' - x||c'| + |x||c' - c|, and what sums of dim products in f32 may lose. `longest` and `rounding` are the greatest
// length of a centroid and of what it lost in bf16. The slack is twice that: two products are compared.
template <class Team>
GTR_FN void halve_row(Team& team, const f32* row, i64 dim, f32 longest, f32 rounding, bf16* halved, f32* slack) {
    const f32 length = sqrt(team.sum(dim, [&](i64 i) { return row[i] * row[i]; }));
    const f32 lost = sqrt(team.sum(dim, [&](i64 i) {
        halved[i] = to_bf16(row[i]);
        const f32 off = row[i] - to_f32(halved[i]);
        return off * off;
    }));
    const f32 sums = static_cast<f32>(dim) * 1.2e-7f * length * longest;
    team.one([&] { *slack = 2 * (lost * (longest + rounding) + length * rounding + sums) * 1.01f; });
}

// Clusters whose products are looked through at once.
constexpr i64 nearest_block = 64;

// As nearest, from products of bf16: clusters that may be the nearest, as far as those products tell, are compared by
// exact products, where there are two or more. `moved` and `against` are what the products are of.
template <class Team>
GTR_FN void nearest_of_few(Team& team, const bf16* products, const f32* halves, const f32* moved, const f32* against,
                           const f32* row, const f32* centroids, i64 dim, i64 n_starts, i64 n_clusters, i64 n_rows,
                           f32 slack, i32* labels, f32* distances) {
    // Half an ulp of the products as they are stored, of the larger of the two, and more.
    constexpr f32 ulp = 1.0f / 256;
    for (i64 start = 0; start < n_starts; ++start) {
        const bf16* own = products + start * n_clusters;
        const f32* half = halves + start * n_clusters;
        const f32* others = against + start * n_clusters * dim;
        const f32 surest = team.max(n_clusters, lowest<f32>(), [&](i64 k) {
            const f32 product = to_f32(own[k]);
            return product - abs(product) * ulp - half[k];
        });
        const f32 least = surest - slack;
        auto may_be = [&](i64 k) {
            const f32 product = to_f32(own[k]);
            return product + abs(product) * ulp - half[k] >= least;
        };
        auto exact = [&](i64 k) {
            const f32* other = others + k * dim;
            return team.sum(dim, [&](i64 i) { return moved[i] * other[i]; }) - half[k];
        };
        f32 best = lowest<f32>();
        i64 found = 0, n_found = 0;
        for (i64 first = 0; first < n_clusters; first += nearest_block) {
            const i32 width = static_cast<i32>(min(nearest_block, n_clusters - first));
            // How far from its end the block's first one is; 0 where there is none.
            const i64 from_end = team.max(width, 0, [&](i64 j) { return may_be(first + j) ? width - static_cast<i32>(j) : 0; });
            if (from_end == 0) continue;
            const i64 last = team.max(width, 0, [&](i64 j) { return may_be(first + j) ? static_cast<i32>(j) : 0; });
            for (i64 k = first + width - from_end; k <= first + last; ++k) {
                if (!may_be(k)) continue;
                if (++n_found == 1) {
                    found = k;
                    continue;
                }
                if (n_found == 2) best = exact(found);
                const f32 value = exact(k);
                if (value > best) {
                    best = value;
                    found = k;
                }
            }
        }
        team.one([&] { labels[start * n_rows] = static_cast<i32>(found); });
        if (!distances) continue;
        const f32 distance = squared_distance(team, dim, row, centroids + (start * n_clusters + found) * dim);
        team.one([&] { distances[start * n_rows] = distance; });
    }
}

// The sum of the rows of one cluster, from `low` up to `high` of their columns. Rows are added in their order: those of
// each block of `block_rows` on their own, then the blocks.
template <class T, class Team>
GTR_FN void row_sum(Team& team, const T* rows, const i32* members, i64 n_members, i64 dim, i64 low, i64 high,
                    i64 block_rows, f64* sums) {
    const i64 width = high - low;
    f64* block = team.template scratch<f64>(width);
    // Each column stays with one thread throughout.
    i64 next = 0;
    while (next < n_members) {
        const i64 end = (members[next] / block_rows + 1) * block_rows;
        team.each(width, [&](i64 i) { block[i] = 0; });
        // Four rows at a time: each is far from the last one in memory.
        for (; next + 3 < n_members && members[next + 3] < end; next += 4) {
            const T* a = rows + members[next] * dim + low;
            const T* b = rows + members[next + 1] * dim + low;
            const T* c = rows + members[next + 2] * dim + low;
            const T* d = rows + members[next + 3] * dim + low;
            team.each(width, [&](i64 i) {
                block[i] = block[i] + to_f64(a[i]) + to_f64(b[i]) + to_f64(c[i]) + to_f64(d[i]);
            });
        }
        for (; next < n_members && members[next] < end; ++next) {
            const T* row = rows + members[next] * dim + low;
            team.each(width, [&](i64 i) { block[i] += to_f64(row[i]); });
        }
        team.each(width, [&](i64 i) { sums[low + i] += block[i]; });
    }
}

template <class T, class Team>
GTR_FN void row_sums(Team& team, i64 item, const T* rows, const i64* offsets, const i32* members, i64 dim, i64 columns,
                     i64 n_parts, i64 block_rows, f64* sums) {
    const i64 bin = item / n_parts, low = item % n_parts * columns;
    row_sum(team, rows, members + offsets[bin], offsets[bin + 1] - offsets[bin], dim, low, min(low + columns, dim),
            block_rows, sums + bin * dim);
}

// The sums of all clusters over some rows, which are read as they lie: for few clusters, whose sums stay in a cache.
// Labels of another start are `apart` further on.
template <class T, class Team>
GTR_FN void add_rows(Team& team, const T* rows, const i32* labels, i64 n_rows, i64 n_starts, i64 apart, i64 n_clusters,
                     i64 dim, f64* sums) {
    team.each(n_starts * n_clusters * dim, [&](i64 i) { sums[i] = 0; });
    team.sync();
    // Each column stays with one thread throughout.
    for (i64 row = 0; row < n_rows; ++row) {
        const T* own = rows + row * dim;
        for (i64 start = 0; start < n_starts; ++start) {
            f64* sum = sums + (start * n_clusters + labels[start * apart + row]) * dim;
            team.each(dim, [&](i64 i) { sum[i] += to_f64(own[i]); });
        }
    }
}

GTR_FINISH

GTR_ENTRY(nearest_f32, Warp, const f32* products, const f32* halves, const f32* rows, const f32* centroids, i64 dim,
          i64 n_starts, i64 n_clusters, i64 n_rows, i64 first, i32* labels, f32* distances)
    nearest(team, products + item * n_starts * n_clusters, halves, rows + item * dim, centroids, dim, n_starts,
            n_clusters, n_rows, labels + first + item, distances ? distances + first + item : nullptr);
GTR_END

GTR_ENTRY(nearest_f64, Warp, const f64* products, const f64* halves, const f64* rows, const f64* centroids, i64 dim,
          i64 n_starts, i64 n_clusters, i64 n_rows, i64 first, i32* labels, f64* distances)
    nearest(team, products + item * n_starts * n_clusters, halves, rows + item * dim, centroids, dim, n_starts,
            n_clusters, n_rows, labels + first + item, distances ? distances + first + item : nullptr);
GTR_END

GTR_ENTRY(halve_rows, Warp, const f32* rows, i64 dim, f64 longest, f64 rounding, bf16* halved, f32* slacks)
    halve_row(team, rows + item * dim, dim, static_cast<f32>(longest), static_cast<f32>(rounding), halved + item * dim,
              slacks + item);
GTR_END

GTR_ENTRY(nearest_of_few, Warp, const bf16* products, const f32* halves, const f32* moved, const f32* against,
          const f32* rows, const f32* centroids, const f32* slacks, i64 dim, i64 n_starts, i64 n_clusters, i64 n_rows,
          i64 first, i32* labels, f32* distances)
    nearest_of_few(team, products + item * n_starts * n_clusters, halves, moved + item * dim, against,
                   rows + item * dim, centroids, dim, n_starts, n_clusters, n_rows, slacks[item],
                   labels + first + item, distances ? distances + first + item : nullptr);
GTR_END

GTR_ENTRY(row_distances_f32, Warp, const f32* rows, const f32* centroids, const i32* labels, i64 dim, f32* distances)
    const f32 found = squared_distance(team, dim, rows + item * dim, centroids + labels[item] * dim);
    team.one([&] { distances[item] = found; });
GTR_END

GTR_ENTRY(row_distances_f64, Warp, const f64* rows, const f64* centroids, const i32* labels, i64 dim, f64* distances)
    const f64 found = squared_distance(team, dim, rows + item * dim, centroids + labels[item] * dim);
    team.one([&] { distances[item] = found; });
GTR_END

GTR_ENTRY(row_distances_bf16, Warp, const bf16* rows, const f32* centroids, const i32* labels, i64 dim, f32* distances)
    const f32 found = squared_distance(team, dim, rows + item * dim, centroids + labels[item] * dim);
    team.one([&] { distances[item] = found; });
GTR_END

GTR_ENTRY(row_distances_f16, Warp, const f16* rows, const f32* centroids, const i32* labels, i64 dim, f32* distances)
    const f32 found = squared_distance(team, dim, rows + item * dim, centroids + labels[item] * dim);
    team.one([&] { distances[item] = found; });
GTR_END

GTR_ENTRY(row_sums_f32, Block, const f32* rows, const i64* offsets, const i32* members, i64 dim, i64 columns,
          i64 n_parts, i64 block_rows, f64* sums)
    row_sums(team, item, rows, offsets, members, dim, columns, n_parts, block_rows, sums);
GTR_END

GTR_ENTRY(row_sums_f64, Block, const f64* rows, const i64* offsets, const i32* members, i64 dim, i64 columns,
          i64 n_parts, i64 block_rows, f64* sums)
    row_sums(team, item, rows, offsets, members, dim, columns, n_parts, block_rows, sums);
GTR_END

GTR_ENTRY(row_sums_bf16, Block, const bf16* rows, const i64* offsets, const i32* members, i64 dim, i64 columns,
          i64 n_parts, i64 block_rows, f64* sums)
    row_sums(team, item, rows, offsets, members, dim, columns, n_parts, block_rows, sums);
GTR_END

GTR_ENTRY(row_sums_f16, Block, const f16* rows, const i64* offsets, const i32* members, i64 dim, i64 columns,
          i64 n_parts, i64 block_rows, f64* sums)
    row_sums(team, item, rows, offsets, members, dim, columns, n_parts, block_rows, sums);
GTR_END

GTR_ENTRY(add_rows_f32, Block, const f32* rows, const i32* labels, i64 n_rows, i64 together, i64 n_starts, i64 apart,
          i64 n_clusters, i64 dim, f64* sums)
    const i64 first = item * together;
    add_rows(team, rows + first * dim, labels + first, min(together, n_rows - first), n_starts, apart, n_clusters, dim,
             sums + item * n_starts * n_clusters * dim);
GTR_END

GTR_ENTRY(add_rows_f64, Block, const f64* rows, const i32* labels, i64 n_rows, i64 together, i64 n_starts, i64 apart,
          i64 n_clusters, i64 dim, f64* sums)
    const i64 first = item * together;
    add_rows(team, rows + first * dim, labels + first, min(together, n_rows - first), n_starts, apart, n_clusters, dim,
             sums + item * n_starts * n_clusters * dim);
GTR_END

GTR_ENTRY(add_rows_bf16, Block, const bf16* rows, const i32* labels, i64 n_rows, i64 together, i64 n_starts, i64 apart,
          i64 n_clusters, i64 dim, f64* sums)
    const i64 first = item * together;
    add_rows(team, rows + first * dim, labels + first, min(together, n_rows - first), n_starts, apart, n_clusters, dim,
             sums + item * n_starts * n_clusters * dim);
GTR_END

GTR_ENTRY(add_rows_f16, Block, const f16* rows, const i32* labels, i64 n_rows, i64 together, i64 n_starts, i64 apart,
          i64 n_clusters, i64 dim, f64* sums)
    const i64 first = item * together;
    add_rows(team, rows + first * dim, labels + first, min(together, n_rows - first), n_starts, apart, n_clusters, dim,
             sums + item * n_starts * n_clusters * dim);
GTR_END
