import hypothesis.strategies as st
from hypothesis import given

from gtr_gpu.features.token_window import fill_windows
from gtr_gpu.linearize import TableText


def tokenize(texts):
    """One token a word, which is its number."""
    return [[int(word) for word in text.split()] for text in texts]


def words(start, count):
    return " ".join(str(number) for number in range(start, start + count))


def fill(lead, header, rows, room, n_rows=None):
    (window,) = fill_windows([TableText(lead, header, rows, len(rows) if n_rows is None else n_rows)], tokenize, room)
    return window.tokens, window.cut_lead, window.cut_names, window.cut_rows


def test_everything_fits():
    assert fill("1 2", ["3", "4 5"], ["6 7", "8"], 8) == ([1, 2, 3, 4, 5, 6, 7, 8], False, 0, 0)


def test_rows_are_cut_whole_and_a_shorter_later_row_is_not_pulled_forward():
    assert fill("1 2", ["3"], ["4 5", "6 7 8", "9"], 6) == ([1, 2, 3, 4, 5], False, 0, 2)


def test_names_are_cut_whole_and_no_row_follows():
    assert fill("1", ["2 3", "4 5 6", "7"], ["8"], 5) == ([1, 2, 3], False, 2, 1)


def test_a_long_lead_leaves_the_names_what_they_need():
    assert fill(words(1, 20), ["91", "92"], ["93"], 10) == ([1, 2, 3, 4, 5, 6, 7, 8, 91, 92], True, 0, 1)


def test_a_long_lead_leaves_many_names_half_of_the_window():
    tokens, *cuts = fill(words(1, 20), [str(number) for number in range(90, 99)], [], 10)
    assert tokens == [1, 2, 3, 4, 5, 90, 91, 92, 93, 94]
    assert cuts == [True, 4, 0]


def test_where_nothing_whole_fits_the_first_part_is_cut_and_counted():
    assert fill("", [words(1, 9), "10"], ["11"], 4) == ([1, 2, 3, 4], False, 2, 1)
    assert fill("", [], [words(1, 9), "10"], 4) == ([1, 2, 3, 4], False, 0, 2)


def test_rows_that_were_not_offered_count_as_left_out():
    assert fill("1", [], ["2", "3"], 9, n_rows=500) == ([1, 2, 3], False, 0, 498)


def test_empty_rows_cost_nothing():
    assert fill("1", [], ["", "2", ""], 2) == ([1, 2], False, 0, 0)
    assert fill("", [], [], 2) == ([], False, 0, 0)


def test_a_giant_cell_is_not_tokenized_whole():
    longest = 0

    def watching(texts):
        nonlocal longest
        longest = max([longest, *map(len, texts)])
        return tokenize(texts)

    giant = "7 " * 100_000
    for text in (TableText(giant, ["1"], [], 0), TableText("", [giant], [], 0), TableText("1", [], [giant], 1)):
        fill_windows([text], watching, 8)
    assert longest <= 8 * 16 + 1


part = st.lists(st.integers(0, 9), max_size=6).map(lambda numbers: " ".join(map(str, numbers)))


def reference(text, room):
    """The rule, word by word."""
    lead, names = text.lead.split(), [name.split() for name in text.header]
    lead_room = max(room - sum(map(len, names)), room // 2)
    tokens, left_names, left_rows = lead[:lead_room], len(names), text.n_rows
    open_parts = True
    for name in names:
        open_parts = open_parts and len(tokens) + len(name) <= room
        if open_parts:
            tokens = tokens + name
            left_names -= 1
    open_parts = open_parts and len(lead) <= lead_room
    for row in text.rows:
        open_parts = open_parts and len(tokens) + len(row.split()) <= room
        if open_parts:
            tokens = tokens + row.split()
            left_rows -= 1
    if not tokens:
        tokens = next((text.split() for text in (text.lead, *text.header, *text.rows) if text), [])[:room]
    return [int(token) for token in tokens], len(lead) > lead_room, left_names, left_rows


@given(
    st.lists(st.tuples(part, st.lists(part, max_size=5), st.lists(part, max_size=30)), max_size=4), st.integers(1, 40)
)
def test_batches_follow_the_rule_word_by_word(parts, room):
    texts = [TableText(lead, [name for name in names if name], rows, len(rows)) for lead, names, rows in parts]
    windows = fill_windows(texts, tokenize, room)
    got = [(window.tokens, window.cut_lead, window.cut_names, window.cut_rows) for window in windows]
    assert got == [reference(text, room) for text in texts]
