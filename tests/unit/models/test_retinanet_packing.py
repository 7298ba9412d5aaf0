import pytest
import torch
from torch import Tensor

from models.retinanet.anchors import grid_shapes
from models.retinanet.head import RetinaNetHead
from models.retinanet.packing import Layout, PackedHead, by_anchor, pack, relu_with_gaps
from models.seeding import seeded

SIDES = [(96, 96), (256, 256), (800, 800), (800, 1344), (1344, 96), (160, 224)]


@pytest.mark.parametrize(("height", "width"), SIDES)
def test_levels_lie_a_cell_apart_and_inside(height: int, width: int) -> None:
    layout = Layout.of(grid_shapes(height, width))
    taken = torch.zeros(layout.rows + 1, layout.columns + 1, dtype=torch.int64)
    for place, shape in zip(layout.places, grid_shapes(height, width), strict=True):
        assert (place.rows, place.columns) == shape
        assert place.bottom <= layout.rows
        assert place.right <= layout.columns
        # With the cell beyond its last row and column, no two overlap: so all are a cell apart.
        taken[place.top : place.bottom + 1, place.left : place.right + 1] += 1
    assert taken.max() == 1


@pytest.mark.parametrize(("side", "empty"), [(256, 0.042), (512, 0.037), (800, 0.033)])
def test_little_of_square_canvases_is_empty(side: int, empty: float) -> None:
    head = PackedHead(RetinaNetHead(3, 9, 2), grid_shapes(side, side))
    cells = sum(layout.rows * layout.columns for layout in head.layouts)
    assert len(head.gaps) / cells == pytest.approx(empty, abs=0.0005)


def test_gaps_are_the_cells_of_no_level() -> None:
    layout = Layout.of([(2, 2), (1, 1)])
    # The canvas: 0 0 . 1
    #             0 0 . .
    assert (layout.rows, layout.columns) == (2, 4)
    assert layout.gaps().tolist() == [2, 6, 7]


def levels(dtype: torch.dtype, channels_last: bool = False) -> list[Tensor]:
    generator = torch.Generator().manual_seed(6)
    made = [torch.randn(2, 3, *s, generator=generator) for s in grid_shapes(96, 96)]
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return [x.to(dtype, memory_format=layout).requires_grad_() for x in made]


@pytest.mark.parametrize("channels_last", [False, True])
def test_operators_have_the_gradients_of_what_they_do(channels_last: bool) -> None:
    layout = Layout.of(grid_shapes(96, 96))
    given = levels(torch.float64, channels_last)
    assert torch.autograd.gradcheck(lambda *x: pack(layout, x), given)
    canvas = pack(layout, given).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: by_anchor([x], [layout], 3), canvas)
    # Nothing lies within the step of gradcheck, 1e-6, of ReLU's kink but the gaps.
    shifted = (canvas.detach() + 1e-3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: relu_with_gaps(x.clone(), layout.gaps()), shifted)


def test_the_memory_format_is_kept() -> None:
    layout = Layout.of(grid_shapes(96, 96))
    canvas = pack(layout, levels(torch.float32, True))
    assert canvas.is_contiguous(memory_format=torch.channels_last)
    (gradient,) = torch.autograd.grad(
        by_anchor([canvas], [layout], 3).sum(),
        canvas,
    )
    assert gradient.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(("height", "width"), [(96, 96), (128, 224)])
def test_a_packed_head_says_what_the_plain_one_says(height: int, width: int) -> None:
    shapes = grid_shapes(height, width)
    generator = torch.Generator().manual_seed(7)
    with seeded(7):
        head = RetinaNetHead(channels=3, anchors_per_cell=9, num_classes=2).double()
        for parameter in head.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    given = [torch.randn(2, 3, *s, generator=generator, dtype=torch.float64) for s in shapes]

    packed, plain = PackedHead(head, shapes)(given), head(given)

    # Double precision: only the order of sums differs.
    torch.testing.assert_close(packed, plain, rtol=1e-10, atol=1e-12)
    weights = [torch.randn(x.shape, generator=generator, dtype=torch.float64) for x in plain]
    mine, theirs = (
        torch.autograd.grad(
            sum(((x * w).sum() for x, w in zip(outputs, weights, strict=True)), torch.zeros(())),
            list(head.parameters()),
        )
        for outputs in (packed, plain)
    )
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_a_packed_head_shares_its_parameters() -> None:
    head = RetinaNetHead(channels=3, anchors_per_cell=9, num_classes=2)
    packed = PackedHead(head, grid_shapes(96, 96))
    assert dict(packed.named_parameters()) == dict(head.named_parameters())
    assert packed.state_dict().keys() == head.state_dict().keys()
