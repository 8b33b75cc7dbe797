"""Alternatives to operations that XLA and other targets often have no kernel for."""

from __future__ import annotations

_FOURIER = (
    "products with a Fourier matrix: `frames @ torch.cos(angles)` and `frames @ torch.sin(angles)` with "
    "`frames = x.unfold(-1, n_fft, hop) * window`"
)
_SUMS = "with `m = x.amax(dim, keepdim=True)`, `(x - m).exp().cumsum(dim).log() + m`"
_ALTERNATIVES = {
    "stft": _FOURIER,
    "_fft_r2c": _FOURIER,
    "median": "`x.sort().values[..., (x.size(-1) - 1) // 2]` along the last dimension",
    "kthvalue": "`x.sort(dim).values.select(dim, k - 1)`",
    "smooth_l1_loss": "with `d = (x - y).abs()`, `torch.where(d < beta, d * d / (2 * beta), d - beta / 2).mean()`",
    "huber_loss": "with `d = (x - y).abs()`, `torch.where(d < delta, d * d / 2, delta * (d - delta / 2)).mean()`",
    "trace": "`x.diagonal().sum()`",
    "_trilinear": '`torch.einsum("...i,oij,...j->...o", a, weight, b)`',
    "_amp_foreach_non_finite_check_and_unscale_": "train in bfloat16, without a GradScaler",
    "_amp_update_scale_": "train in bfloat16, without a GradScaler",
    "_adaptive_avg_pool2d": "an output size that divides the input's size",
    "deform_conv2d": "`torch.nn.functional.grid_sample` at the offset positions and a convolution",
    "nms": "`torchvision.ops.box_iou` of a fixed number of boxes (`topk`) and `torch.where`",
    "roi_align": "`torch.nn.functional.grid_sample` at points of each box",
    "logcumsumexp": _SUMS,
    "_logcumsumexp": _SUMS,
    "histc": "`torch.nn.functional.one_hot(((x - low) / (high - low) * bins).long().clamp(0, bins - 1), bins).sum(0)` of flat values in the range",
    "bincount": "`torch.nn.functional.one_hot(x, classes).sum(0)`",
}


def alternative(operation: str) -> str:
    """Return what computes the same, or "".

    Args:
        operation: The name, such as "kthvalue" or "aten::kthvalue.values".
    """
    return _ALTERNATIVES.get(operation.rpartition("::")[2].partition(".")[0], "")
