import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from models.retinanet.anchors import grid_shapes
from models.retinanet.backbone import STAGES_FROM_THE_TOP, Body
from models.retinanet.frozen_norm import FrozenBatchNorm2d
from models.retinanet.head import ClassificationHead, RegressionHead
from models.retinanet.model import BackboneWithPyramid, RetinaNet

# Weights of the convolutions, worked out from the architecture. A bottleneck has
# in * w + w * w * 9 / 32 + w * 4p weights (w = 2p, p planes), its first one in * 4p more.
STAGE_WEIGHTS = {
    "conv1": 3 * 64 * 49,  # 9,408
    "layer1": (64 * 128 + 4_608 + 128 * 256 + 64 * 256) + 2 * (256 * 128 + 4_608 + 128 * 256),
    "layer2": (256 * 256 + 18_432 + 256 * 512 * 2) + 3 * (512 * 256 * 2 + 18_432),
    "layer3": (512 * 512 + 73_728 + 512 * 1024 * 2) + 5 * (1024 * 512 * 2 + 73_728),
    "layer4": (1024 * 1024 + 294_912 + 1024 * 2048 * 2) + 2 * (2048 * 1024 * 2 + 294_912),
}
CONV_256 = 256 * 256 * 9 + 256  # one 3x3 convolution with bias: 590,080
PYRAMID = (512 + 1024 + 2048) * 256 + 3 * 256 + 3 * CONV_256 + 2 * CONV_256
HEAD = 8 * CONV_256 + (256 * 9 + 1) * (9 * 264) + (256 * 9 + 1) * (9 * 4)


def meta_model(trainable_stages: int = 3) -> RetinaNet:
    with torch.device("meta"):
        return RetinaNet(264, trainable_stages, "resnext50_32x4d")


def parameter_count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_parameter_counts_are_those_of_the_architecture() -> None:
    model = meta_model()
    body = model.backbone.body
    assert {name: parameter_count(body.get_submodule(name)) for name in STAGE_WEIGHTS} == (
        STAGE_WEIGHTS
    )
    assert sum(STAGE_WEIGHTS.values()) == 22_911_680
    assert parameter_count(model.backbone.fpn) == PYRAMID == 3_868_672
    assert parameter_count(model.head) == HEAD == 10_280_300
    assert parameter_count(model) == 37_060_652


def test_state_dict_has_the_names_torchvision_gives() -> None:
    names = set(meta_model().state_dict())
    assert {
        "backbone.body.conv1.weight",
        "backbone.body.bn1.running_var",
        "backbone.body.layer1.0.downsample.0.weight",
        "backbone.body.layer1.0.downsample.1.bias",
        "backbone.body.layer4.2.bn3.running_mean",
        "backbone.fpn.inner_blocks.0.0.weight",
        "backbone.fpn.layer_blocks.2.0.bias",
        "backbone.fpn.extra_blocks.p6.weight",
        "backbone.fpn.extra_blocks.p7.bias",
        "head.classification_head.conv.0.0.weight",
        "head.classification_head.cls_logits.bias",
        "head.regression_head.conv.3.0.bias",
        "head.regression_head.bbox_reg.weight",
    } <= names
    # 53 convolutions and as many norms of 4 buffers; 8 + 10 convolutions with bias.
    assert len(names) == 53 + 53 * 4 + (8 + 10) * 2


@pytest.mark.parametrize("trainable_stages", range(6))
def test_only_the_top_stages_learn(trainable_stages: int) -> None:
    body = meta_model(trainable_stages).backbone.body
    learning = {name.split(".")[0] for name, p in body.named_parameters() if p.requires_grad}
    assert learning == set(STAGES_FROM_THE_TOP[:trainable_stages])


@pytest.mark.parametrize("trainable_stages", [-1, 6])
def test_impossible_stage_counts_are_refused(trainable_stages: int) -> None:
    with torch.device("meta"), pytest.raises(ValueError, match=f"={trainable_stages}:"):
        Body(trainable_stages, "resnext50_32x4d")


def test_forward_does_the_work_of_the_architecture() -> None:
    with FlopCounterMode(display=False) as counter:
        meta_model()(torch.empty(2, 3, 256, 256, device="meta"))

    # Weights times the cells of the map they make; layer2 to 4 begin with a 1x1 at twice the side.
    stem = STAGE_WEIGHTS["conv1"] * 128**2 + STAGE_WEIGHTS["layer1"] * 64**2
    stages = STAGE_WEIGHTS["layer2"] * 32**2 + 256 * 256 * (64**2 - 32**2)
    stages += STAGE_WEIGHTS["layer3"] * 16**2 + 512 * 512 * (32**2 - 16**2)
    stages += STAGE_WEIGHTS["layer4"] * 8**2 + 1024 * 1024 * (16**2 - 8**2)
    conv3x3 = 256 * 256 * 9
    pyramid = 256 * (512 * 32**2 + 1024 * 16**2 + 2048 * 8**2)
    pyramid += conv3x3 * (32**2 + 16**2 + 8**2 + 4**2 + 2**2)
    head = (8 * conv3x3 + 256 * 9 * 9 * (264 + 4)) * (32**2 + 16**2 + 8**2 + 4**2 + 2**2)
    flop = 2 * 2 * (stem + stages + pyramid + head)  # multiply and add, two images
    assert counter.get_total_flops() == flop == 82_313_986_048


def test_frozen_stages_are_left_out_of_the_backward_pass() -> None:
    body = meta_model().backbone.body
    traced: dict[str, bool] = {}
    for name in ("conv1", "layer1", "layer2"):
        body.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output, name=name: traced.update({name: output.requires_grad})
        )
    body(torch.empty(1, 3, 64, 64, device="meta"))
    assert traced == {"conv1": False, "layer1": False, "layer2": True}


def random_norm(channels: int) -> FrozenBatchNorm2d:
    norm = FrozenBatchNorm2d(channels)
    generator = torch.Generator().manual_seed(3)
    for name, buffer in norm.named_buffers():
        low = 1e-5 if name == "running_var" else -1.0  # a variance as small as eps shows eps
        buffer.uniform_(low, 1, generator=generator)
    return norm


def test_frozen_norm_is_batch_norm_of_fixed_statistics() -> None:
    norm = random_norm(6)
    norm.running_var[0] = 1e-5
    x = torch.randn(2, 6, 3, 5, generator=torch.Generator().manual_seed(4))

    expected = functional.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=1e-5
    )

    torch.testing.assert_close(norm(x), expected)
    assert not list(norm.parameters())
    bf16 = norm(x.bfloat16())
    assert bf16.dtype == torch.bfloat16
    # bf16 keeps 8 bits; channel 0 scales by up to 224, so errors are relative to that.
    torch.testing.assert_close(bf16.float(), expected, rtol=0.03, atol=0.03 * 224)


@pytest.mark.parametrize("side", [64, 96])
def test_pyramid_levels_have_the_shapes_anchors_expect(side: int) -> None:
    with torch.device("meta"):
        levels = BackboneWithPyramid(3, "resnext50_32x4d")(torch.empty(1, 3, side, side))
    assert [tuple(level.shape) for level in levels] == [
        (1, 256, *shape) for shape in grid_shapes(side, side)
    ]


def test_outputs_cover_all_anchors() -> None:
    outputs = meta_model()(torch.empty(2, 3, 64, 64, device="meta"))
    anchors = 9 * (64 + 16 + 4 + 1 + 1)
    assert outputs.cls_logits.shape == (2, anchors, 264)
    assert outputs.bbox_regression.shape == (2, anchors, 4)


def test_images_are_normalised_inside() -> None:
    model = meta_model()
    model.backbone = nn.Identity()  # type: ignore[assignment]
    model.head = nn.Identity()  # type: ignore[assignment]
    model.mean, model.std = torch.tensor([[[0.5]]]), torch.tensor([[[0.25]]])
    assert model(torch.ones(1, 3, 1, 1)).flatten().tolist() == [2, 2, 2]

    fresh = RetinaNet(1, 3, "resnext50_32x4d")
    assert fresh.mean.flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert fresh.std.flatten().tolist() == pytest.approx([0.229, 0.224, 0.225])


def test_class_logits_stand_by_anchor_then_class() -> None:
    head = ClassificationHead(channels=2, anchors_per_cell=9, num_classes=5)
    torch.testing.assert_close(
        head.cls_logits.get_parameter("bias").sigmoid(), torch.full((45,), 0.01)
    )
    nn.init.zeros_(head.cls_logits.weight)
    head.cls_logits.bias = nn.Parameter(torch.arange(45.0))

    logits = head([torch.ones(1, 2, 2, 2), torch.ones(1, 2, 1, 1)])

    assert logits.shape == (1, 5 * 9, 5)
    torch.testing.assert_close(logits[0, 9:18], torch.arange(45.0).reshape(9, 5))


def test_anchors_of_a_map_stand_row_by_row() -> None:
    head = RegressionHead(channels=1, anchors_per_cell=9)
    head.conv = nn.Sequential()
    centre_tap = torch.zeros_like(head.bbox_reg.weight)
    centre_tap[:, :, 1, 1] = 1
    head.bbox_reg.weight = nn.Parameter(centre_tap)

    regression = head([torch.arange(6.0).reshape(1, 1, 2, 3)])

    assert regression[0, ::9, 0].tolist() == [0, 1, 2, 3, 4, 5]
