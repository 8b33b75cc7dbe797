"""One stream of "device" random numbers, drawn on the CPU, the same in both runs.

CUDA's, XLA's and the CPU's generators give different numbers for one seed (facts 1.30, 1.33), and
a script's noise, dropout or initialisation on the device would make the two runs differ for no fault
of the migration. So whatever a script draws on its device is drawn here instead, by one CPU
generator, and moved: in the redirected reference, on a real GPU and on XLA alike. The generator is
separate, because drawing on a GPU does not advance the CPU's. On XLA the price is an upload per
draw; no launch, no compile (`draws` counts them).

Until training begins, though, the stream is the CPU's own generator: a migration may build on the CPU
what the original built on the device, and only one common order of draws gives both the same initial
weights. From the first batch or backward pass on it must be apart, since device loaders read ahead
in threads, drawing from the CPU's generator whenever they please.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _device as default_device
from torch.utils.data._utils import fetch as data_fetch

from ..process.patching import Patches

generator = torch.Generator()
draws = 0

# Scripts that set no seed get torch's own default in both runs.
generator.manual_seed(0)

_TICKETS = 4096  # more than any model has checkpointed layers
_FACTORIES = ("rand", "randn", "randint", "randperm")
_LIKE = {"rand_like": "rand", "randn_like": "randn", "randint_like": "randint"}
_IN_PLACE = (
    "normal_",
    "uniform_",
    "random_",
    "exponential_",
    "geometric_",
    "cauchy_",
    "log_normal_",
)


_training = False
_loading = threading.local()


def begin_training() -> None:
    """From now on the device's stream is its own."""
    global _training
    _training = True


def stream() -> torch.Generator:
    """The generator that device numbers are drawn from at this point."""
    return generator if _training else torch.default_generator


def seed(value: int) -> None:
    """Seed the device as `torch.manual_seed` does.

    Not while data are loaded: data sets that seed by index (torchvision's FakeData) do so between two
    draws of the original, and whenever a loader that reads ahead gets to it.
    """
    if not loading():
        generator.manual_seed(int(value) % (1 << 64))


def loading() -> bool:
    """True if this thread is fetching a batch for a loader."""
    return bool(getattr(_loading, "depth", 0))


def device_of(spec: Any) -> str:
    """The type of the device that a `device=` argument names."""
    if spec is None:
        return _default_device().type
    if isinstance(spec, torch.device):
        return spec.type
    return "cuda" if type(spec) is int else str(spec).split(":")[0]


def _default_device() -> torch.device:
    try:
        return torch.get_default_device()
    except AttributeError:  # of torch 2.9 after `set_default_device(None)`
        return torch.device("cpu")


def on_device(spec: Any) -> bool:
    """True if the device has its own random numbers."""
    return device_of(spec) not in ("cpu", "meta")


def moved(tensor: torch.Tensor, spec: Any, requires_grad: bool = False) -> torch.Tensor:
    """A draw, on the device that asked for it."""
    global draws
    draws += 1
    out = tensor.to("cuda" if type(spec) is int else _default_device() if spec is None else spec)
    return out.requires_grad_() if requires_grad else out


def uniform(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers from [0, 1) in the tensor's shape and on its device, in float32."""
    return moved(_rand(tensor.shape, generator=stream(), dtype=torch.float32), tensor.device)


# The originals, for our own draws; `install` wraps whatever is there by then.
_rand: Callable[..., torch.Tensor] = torch.rand


def _factory(fn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(fn)
    def draw(*args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        if not on_device(device):
            return fn(*args, **kwargs) if device is None else fn(*args, device=device, **kwargs)
        grad = kwargs.pop("requires_grad", False)
        kwargs["generator"] = kwargs.get("generator") or stream()
        return moved(fn(*args, device="cpu", **kwargs), device, grad)

    return draw


def _like(
    fn: Callable[..., torch.Tensor], drawn_by: Callable[..., torch.Tensor]
) -> Callable[..., torch.Tensor]:
    @functools.wraps(fn)
    def draw(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        device = kwargs.get("device") or input.device
        if not on_device(device):
            return fn(input, *args, **kwargs)
        if "low" in kwargs or "high" in kwargs:
            args = (kwargs.pop("low", 0), kwargs.pop("high"))
        options = {"dtype": kwargs.get("dtype") or input.dtype, "generator": stream()}
        out = drawn_by(*args, input.shape, device="cpu", **options)
        return moved(out, device, kwargs.get("requires_grad", False))

    return draw


def _in_place(fn: Callable[..., torch.Tensor], name: str) -> Callable[..., torch.Tensor]:
    @functools.wraps(fn)
    def draw(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not on_device(self.device):
            return fn(self, *args, **kwargs)
        kwargs["generator"] = kwargs.get("generator") or stream()
        drawn = fn(torch.empty(self.shape, dtype=self.dtype, device="cpu"), *args, **kwargs)
        self.copy_(moved(drawn, self.device))
        return self

    return draw


def _bernoulli_in_place(fn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def bernoulli_(self: torch.Tensor, p: Any = 0.5, *, generator: Any = None) -> torch.Tensor:
        if not on_device(self.device):
            return fn(self, p, generator=generator)
        self.copy_((uniform(self) < p).to(self.dtype))
        return self

    return bernoulli_


def _bernoulli(fn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(fn)
    def bernoulli(input: torch.Tensor, p: Any = None, **kwargs: Any) -> torch.Tensor:
        if not on_device(input.device):
            return fn(input, **kwargs) if p is None else fn(input, p, **kwargs)
        return (uniform(input) < (input if p is None else p)).to(input.dtype)

    return bernoulli


def _normal(fn: Callable[..., torch.Tensor], randn: Any) -> Callable[..., torch.Tensor]:
    """torch.normal of numbers and a size, or of tensors."""

    @functools.wraps(fn)
    def normal(mean: Any, std: Any = 1.0, *args: Any, **kwargs: Any) -> torch.Tensor:
        likes = [x for x in (mean, std) if isinstance(x, torch.Tensor)]
        if likes:
            like = torch.broadcast_tensors(*likes)[0]  # type: ignore[no-untyped-call]
            if not on_device(like.device):
                return fn(mean, std, *args, **kwargs)
            noise = randn(like.shape, generator=kwargs.get("generator") or stream())
            return mean + std * moved(noise, like.device)  # type: ignore[no-any-return]
        device = kwargs.pop("device", None)
        if not on_device(device):
            options = kwargs if device is None else {"device": device, **kwargs}
            return fn(mean, std, *args, **options)
        kwargs["generator"] = kwargs.get("generator") or stream()
        grad = kwargs.pop("requires_grad", False)
        return moved(fn(mean, std, *args, device="cpu", **kwargs), device, grad)

    return normal


def _multinomial(fn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(fn)
    def multinomial(
        input: torch.Tensor, num_samples: int, replacement: bool = False, **kwargs: Any
    ) -> torch.Tensor:
        if not on_device(input.device):
            return fn(input, num_samples, replacement, **kwargs)
        if replacement and num_samples > 1:
            total = input.cumsum(-1)
            u = uniform(input.new_empty((*input.shape[:-1], num_samples))) * total[..., -1:]
            return torch.searchsorted(total, u.to(total.dtype)).clamp_max(input.shape[-1] - 1)
        # The exponential race: the k smallest of Exp(1) / p are k draws without replacement.
        race = input / -torch.log1p(-uniform(input))
        return race.topk(num_samples, -1).indices

    return multinomial


def install(patches: Patches) -> None:
    """Draw every device random number of this process from `generator`."""
    default_device._device_constructors()  # kept by torch: with its own functions, not with ours
    _seeds(patches)
    wrapped: dict[str, Any] = {name: _factory(getattr(torch, name)) for name in _FACTORIES}
    for name, base in _LIKE.items():
        wrapped[name] = _like(getattr(torch, name), getattr(torch, base))
    wrapped["bernoulli"] = _bernoulli(torch.bernoulli)
    wrapped["normal"] = _normal(torch.normal, torch.randn)
    wrapped["multinomial"] = _multinomial(torch.multinomial)
    for name, value in wrapped.items():
        patches.put(torch, name, value)
    for name in ("bernoulli", "multinomial"):
        patches.put(torch.Tensor, name, wrapped[name])
    for name in _IN_PLACE:
        patches.put(torch.Tensor, name, _in_place(getattr(torch.Tensor, name), name))
    patches.put(torch.Tensor, "bernoulli_", _bernoulli_in_place(torch.Tensor.bernoulli_))
    iterate = torch.utils.data.DataLoader.__iter__

    def iterated(self: Any) -> Any:
        begin_training()
        return iterate(self)

    patches.put(torch.utils.data.DataLoader, "__iter__", iterated)
    for fetcher in (data_fetch._MapDatasetFetcher, data_fetch._IterableDatasetFetcher):
        patches.put(fetcher, "fetch", _while_loading(fetcher.fetch))


def _while_loading(fetch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fetch)
    def fetched(*args: Any, **kwargs: Any) -> Any:
        _loading.depth = getattr(_loading, "depth", 0) + 1
        try:
            return fetch(*args, **kwargs)
        finally:
            _loading.depth -= 1

    return fetched


def _seeds(patches: Patches) -> None:
    manual_seed = torch.manual_seed

    def seed_all(value: int) -> torch.Generator:
        out = manual_seed(value)
        seed(value)
        return out

    patches.put(torch, "manual_seed", seed_all)
    patches.put(torch.random, "manual_seed", seed_all)
    for name in ("manual_seed", "manual_seed_all"):
        patches.put(torch.cuda, name, _then_seed(getattr(torch.cuda, name)))


def _then_seed(fn: Callable[[int], Any]) -> Callable[[int], Any]:
    def seeded(value: int) -> Any:
        out = fn(value)
        seed(value)
        return out

    return seeded


def install_torch_xla(patches: Patches, torch_xla: Any, xm: Any) -> None:
    """Once torch_xla is imported: its seeds seed the stream, and its state stands for the stream's.

    Recomputation (activation checkpointing) reads XLA's RNG state and sets it back; since XLA itself
    draws nothing here, that state is made a ticket for the stream's.
    """
    kept: dict[int, torch.Tensor] = {}
    tickets = itertools.count(1 << 62)
    put = xm.set_rng_state

    def get_rng_state(device: Any = None) -> int:
        ticket = next(tickets)
        kept[ticket] = generator.get_state()
        if len(kept) > _TICKETS:
            del kept[next(iter(kept))]
        put(ticket)
        return ticket

    def set_rng_state(seed_or_state: int, device: Any = None) -> None:
        put(int(seed_or_state))
        if int(seed_or_state) in kept:
            generator.set_state(kept[int(seed_or_state)])
        else:
            seed(int(seed_or_state))

    patches.put(xm, "get_rng_state", get_rng_state)
    patches.put(xm, "set_rng_state", set_rng_state)
    patches.put(torch_xla, "manual_seed", set_rng_state)
