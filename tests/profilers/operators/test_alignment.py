"""Alignment of call sequences, checked by hand."""

from hypothesis import given
from hypothesis import strategies as st

from perfmodel.profilers.operators.alignment import Call, absorb_parts, align


def calls(*ops: str) -> list[Call]:
    """``"mm:2,3"`` is a product whose first argument has the shape (2, 3)."""
    found = []
    for op in ops:
        name, _, shape = op.partition(":")
        extents = tuple(int(e) for e in shape.split(",")) if shape else ()
        found.append(Call(op=name, shapes=(extents,) if extents else ()))
    return found


def test_equal_sequences_pair_one_to_one() -> None:
    sequence = calls("conv:1,3", "relu_:1,8", "mm:1,8")
    assert align(sequence, sequence) == [(0, 0), (1, 1), (2, 2)]


def test_a_call_that_only_ran_stays_alone() -> None:
    assert align(calls("mm:2,3", "detach:2,3", "relu:2,4"), calls("mm:2,3", "relu:2,4")) == [
        (0, 0),
        (2, 1),
    ]


def test_a_node_that_did_not_run_stays_alone() -> None:
    assert align(calls("mm:2,3"), calls("view:6", "mm:2,3", "t:3,2")) == [(0, 1)]


def test_in_place_and_plain_forms_pair() -> None:
    assert align(calls("relu_:4"), calls("relu:4")) == [(0, 0)]


def test_shapes_decide_which_of_two_equal_operators_is_meant() -> None:
    # The first product ran in another way (bmm); by name alone the second would take its place.
    assert align(calls("bmm:1,2,3", "mm:4,5"), calls("mm:2,3", "mm:4,5")) == [(1, 1)]


def test_another_shape_still_pairs_where_nothing_better_is_there() -> None:
    assert align(calls("mm:2,3", "add:7"), calls("mm:3,2", "add:7")) == [(0, 0), (1, 1)]


def test_a_repeated_block_is_not_shifted_by_one_layer() -> None:
    layer = ["mm:2,3", "softmax:2,2", "mm:2,2"]
    ran = calls(*layer, "bernoulli:2", *layer, "bernoulli:2", *layer)
    expected = calls(*layer * 3)
    assert align(ran, expected) == [
        (0, 0), (1, 1), (2, 2), (4, 3), (5, 4), (6, 5), (8, 6), (9, 7), (10, 8),
    ]  # fmt: skip


def test_the_parts_of_an_attention_go_to_its_node() -> None:
    expected = calls("view:8", "scaled_dot_product_attention_backward:2,4", "mm:2,4")
    ran = calls("view:8", "bmm:2,4", "softmax_grad:2,2", "bmm:2,2", "mm:2,4")
    pairs = align(ran, expected)
    assert pairs == [(0, 0), (4, 2)]
    assert absorb_parts(pairs, ran, expected) == [(1, 1), (2, 1), (3, 1)]


def test_further_layers_of_a_recurrent_stack_go_to_its_node() -> None:
    expected = calls("mm:1,1", "_cudnn_rnn_backward:2,4")
    ran = calls("mm:1,1", "mkldnn_rnn_layer_backward:2,4", "mkldnn_rnn_layer_backward:2,4")
    pairs = align(ran, expected)
    further = absorb_parts(pairs, ran, expected)
    assert {j for i, j in (*pairs, *further) if i > 0} == {1}
    assert len(pairs) + len(further) == 3


def test_nothing_aligns_with_nothing() -> None:
    assert align([], calls("mm:1,1")) == []
    assert align(calls("mm:1,1"), []) == []


sequences = st.lists(st.sampled_from(["a:1", "a:2", "b:1", "c"]), max_size=12)


@given(sequences, sequences)
def test_pairs_never_cross_and_share_their_operator(ran: list[str], expected: list[str]) -> None:
    left, right = calls(*ran), calls(*expected)
    pairs = align(left, right)
    assert all(left[i].op == right[j].op for i, j in pairs)
    for (i0, j0), (i1, j1) in zip(pairs, pairs[1:], strict=False):
        assert i0 < i1
        assert j0 < j1


@given(sequences, st.lists(st.integers(0, 12), max_size=5))
def test_deletions_leave_the_rest_paired(expected: list[str], deleted: list[int]) -> None:
    ran = [op for i, op in enumerate(expected) if i not in deleted]
    assert len(align(calls(*ran), calls(*expected))) == len(ran)
