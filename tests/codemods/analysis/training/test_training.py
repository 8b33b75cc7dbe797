"""Loops: which train, which evaluate, what feeds them, where the marks go. In the styles that people write."""

from __future__ import annotations

import itertools
import textwrap

import pytest

from ...helpers import migrated

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"


def lines_of(source: str) -> list[str]:
    """The migrated source without its imports, stripped."""
    return [line.strip() for line in migrated(HEAD + textwrap.dedent(source)).splitlines()]


def count(source: str, text: str) -> int:
    return sum(text in line for line in lines_of(source))


def follows(source: str, first: str, second: str) -> bool:
    """Whether the line `second` stands directly behind a line that holds `first`."""
    lines = lines_of(source)
    return any(first in a and b == second for a, b in itertools.pairwise(lines))


@pytest.mark.parametrize(
    ("loop", "wrapped"),
    [
        ("for x, y in loader:", "for x, y in xla.MpDeviceLoader(loader):"),
        (
            "for i, (x, y) in enumerate(loader):",
            "for i, (x, y) in enumerate(xla.MpDeviceLoader(loader)):",
        ),
        (
            "for i, (x, y) in enumerate(loader, 1):",
            "for i, (x, y) in enumerate(xla.MpDeviceLoader(loader), 1):",
        ),
        (
            "for i, (x, y) in enumerate(tqdm(loader, ncols=80)):",
            "for i, (x, y) in enumerate(tqdm(xla.MpDeviceLoader(loader), ncols=80)):",
        ),
        (
            "for i, (x, y) in tqdm(enumerate(loader)):",
            "for i, (x, y) in tqdm(enumerate(xla.MpDeviceLoader(loader))):",
        ),
        (
            "for x, y in itertools.islice(loader, 9):",
            "for x, y in itertools.islice(xla.MpDeviceLoader(loader), 9):",
        ),
        (
            "for x, y in metric_logger.log_every(loader, 10, header):",
            "for x, y in metric_logger.log_every(xla.MpDeviceLoader(loader), 10, header):",
        ),
        ("for x, y in loaders['train']:", "for x, y in xla.MpDeviceLoader(loaders['train']):"),
        ("for x, y in self.train_loader:", "for x, y in xla.MpDeviceLoader(self.train_loader):"),
        (
            "for (x, y), u in zip(loader, unlabeled):",
            "for (x, y), u in zip(xla.MpDeviceLoader(loader), xla.MpDeviceLoader(unlabeled)):",
        ),
    ],
)
def test_drivers(loop: str, wrapped: str) -> None:
    source = f"""
        {loop}
            x, y = x.to(device), y.to(device)
            loss = model(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    if "unlabeled" in loop:
        source = source.replace("y.to(device)\n", "y.to(device)\n            u = u.to(device)\n")
    assert wrapped in lines_of(source)
    assert count(source, "mark_step") == 0  # the loader marks


@pytest.mark.parametrize("use", ["plt.imshow(x[0])", "score = metric(x, y)"])
def test_batch_needed_on_the_host_is_not_wrapped(use: str) -> None:
    source = f"""
        for x, y in DataLoader(dataset):
            {use}
            loss = model(x.to(device))
            loss.backward()
            optimizer.step()
        """
    assert count(source, "MpDeviceLoader") == 0
    assert follows(source, "xla.optimizer_step(optimizer)", "xla.mark_step()")


@pytest.mark.parametrize(
    "use",
    [
        "print(y.tolist())",
        "labels.append(y.numpy())",
        "names.extend(y)",
        "if y.sum() > 3: skip()",
        "targets.append(y)",
        "total += y",
    ],
)
def test_a_part_needed_on_the_host_stays_there(use: str) -> None:
    source = f"""
        for x, y in DataLoader(dataset):
            {use}
            loss = model(x.to(device))
            loss.backward()
            optimizer.step()
        """
    assert "for x, y in xla.MpDeviceLoader(DataLoader(dataset), host=(1,)):" in lines_of(source)


@pytest.mark.parametrize(
    "use",
    [
        "n += len(x)",
        "n += x.size(0)",
        "bs = x.shape[0]",
        "assert y is not None",
        "y = y.float().to(device)",
        "y = y.view(-1).cuda()",
        "if isinstance(y, dict): pass",
    ],
)
def test_questions_do_not_keep_a_batch_on_the_host(use: str) -> None:
    source = f"""
        for x, y in DataLoader(dataset):
            {use}
            x = x.to(device)
            loss = model(x)
            loss.backward()
            optimizer.step()
        """
    assert count(source, "MpDeviceLoader") == 1


@pytest.mark.parametrize(
    "move",
    [
        "batch = {k: v.to(device) for k, v in batch.items()}",
        "batch = tuple(t.to(device) for t in batch)",
        "batch = [t.cuda() for t in batch]",
        "batch = batch.to(device)",
        "batch = to_device(batch, device)",
        "batch = move_to_cuda(batch)",
        "x, y = batch[0].to(device), batch[1].to(device)",
        "x, y = batch['x'].to(device), batch['y'].to(device)",
        "x, y = batch; x = x.to(device); y = y.to(device)",
        "x, y = (t.to(device) for t in batch)",
        "x, y = map(lambda t: t.to(device), batch)",
        "for k in batch: batch[k] = batch[k].to(device)",
        "for k, v in batch.items(): batch[k] = v.to(device)",
        "inputs = batch.pop('x').to(device)",
    ],
)
def test_moves(move: str) -> None:
    source = f"""
        for batch in DataLoader(dataset):
            {move}
            loss = compute()
            loss.backward()
            optimizer.step()
        """
    if "map(" in move:
        pytest.xfail("a batch that is moved by a function argument is left to the loop")
    assert count(source, "MpDeviceLoader") == 1


def test_moved_in_a_local_function() -> None:
    source = """
        def step(batch):
            x, y = batch
            x, y = x.to(device), y.to(device)
            loss = model(x, y)
            loss.backward()
            optimizer.step()
            return loss.item()
        for batch in DataLoader(dataset):
            print(step(batch))
        """
    assert count(source, "MpDeviceLoader") == 1
    assert follows(source, "xla.optimizer_step(optimizer)", "xla.mark_step()")


def test_next_of_an_iterator() -> None:
    source = """
        it = iter(loader)
        while step < 10:
            try:
                x, y = next(it)
            except StopIteration:
                it = iter(loader)
                x, y = next(it)
            x, y = x.to(device), y.to(device)
            model(x, y).backward()
            optimizer.step()
            step += 1
        """
    assert count(source, "it = iter(xla.MpDeviceLoader(loader))") == 2
    assert count(source, "mark_step") == 0


def test_cycle_is_marked_by_the_loop() -> None:
    """`itertools.cycle` reads the loader once: later rounds come from its own list."""
    source = """
        from itertools import cycle
        for x, y in cycle(loader):
            x, y = x.to(device), y.to(device)
            model(x, y).backward()
            optimizer.step()
        """
    assert count(source, "MpDeviceLoader") == 0
    assert count(source, "mark_step") == 1


@pytest.mark.parametrize(
    "step",
    [
        "scheduler.step()",
        "lr_scheduler.step()",
        "env.step(action)",
        "profiler.step()",
        "self.sim.step(0.1)",
        "warmup_optimizer_schedule.step()",
        "stepper.step()",
        "Wrapper(optimizer).step()",
    ],
)
def test_other_steps_stay(step: str) -> None:
    source = f"""
        class Wrapper:
            def __init__(self, inner): self.inner = inner
            def step(self): return 1
        for x in range(3):
            {step}
        """
    assert step in lines_of(source)


@pytest.mark.parametrize(
    "made",
    [
        "optimizer = torch.optim.Adam(model.parameters())",
        "optimizer = getattr(torch.optim, name)(model.parameters())",
        "optimizer = build_optimizer(model)",
        "optimizer = None\nif x: optimizer = torch.optim.SGD(model.parameters(), 0.1)",
        "optimizer, scheduler = make(model)",
        "optimizer = Ranger(model.parameters())",
        "optimizer = OPTIMIZERS['adam'](model.parameters())",
    ],
)
def test_optimizers_of_any_origin(made: str) -> None:
    source = f"{made}\nfor _ in range(3):\n    loss.backward()\n    optimizer.step()\n"
    assert "xla.optimizer_step(optimizer)" in lines_of(source)


def test_optimizer_in_a_class() -> None:
    source = """
        class Trainer:
            def __init__(self, model):
                self.algo, self.opt_d = model, torch.optim.Adam(model.parameters())
            def train_batch(self, x):
                self.algo(x).backward()
                self.opt_d.step()
                self.algo.step()
        """
    assert "xla.optimizer_step(self.opt_d)" in lines_of(source)
    assert "self.algo.step()" in lines_of(source)


def test_two_optimizers_one_mark() -> None:
    source = """
        for i, data in enumerate(range(9)):
            loss_d.backward()
            opt_d.step()
            if i % 5 == 0:
                loss_g.backward()
                opt_g.step()
            print(loss_d.item())
        """
    lines = lines_of(source)
    assert lines.count("xla.mark_step()") == 1
    assert lines.index("xla.mark_step()") == lines.index("print(loss_d.item())") - 1


def test_either_branch_steps_one_mark() -> None:
    source = """
        for i in range(9):
            if plain:
                loss.backward()
                optimizer.step()
            else:
                loss.sum().backward()
                optimizer.step()
        """
    assert count(source, "mark_step") == 1


def test_step_before_a_return_is_marked_there() -> None:
    source = """
        def step(loss):
            if loss is not None:
                loss.backward()
                optimizer.step()
                return 1
            return 0
        """
    assert follows(source, "xla.optimizer_step(optimizer)", "xla.mark_step()")


def test_accumulation_with_a_loader() -> None:
    """The loader marks each micro-batch; a mark of our own stands before the read, behind the whole `if`."""
    source = """
        for i, (x, y) in enumerate(DataLoader(dataset)):
            loss = model(x.to(device), y.to(device)) / 4
            loss.backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
            if loss.item() > 9:
                break
        """
    assert follows(source, "optimizer.zero_grad()", "xla.mark_step()")
    assert count(source, "mark_step") == 1


def test_steppers_in_a_list_are_marked_behind_their_loop() -> None:
    source = """
        opts = [torch.optim.Adam(m.parameters()) for m in models]
        for i in range(9):
            loss.backward()
            for opt in opts:
                opt.step()
        """
    lines = lines_of(source)
    assert lines[-2:] == ["xla.optimizer_step(opt)", "xla.mark_step()"]
    assert migrated(HEAD + textwrap.dedent(source)).endswith("\n    xla.mark_step()\n")


def test_continue_before_the_mark() -> None:
    source = """
        for i in range(9):
            loss = model(i)
            if torch.isnan(loss):
                continue
            loss.backward()
            optimizer.step()
        """
    lines = lines_of(source)
    assert lines[lines.index("continue") - 1] == "xla.mark_step()"
    assert lines[-1] == "xla.mark_step()"


def test_time_loops_in_a_graph_are_not_marked() -> None:
    """Truncated back-propagation: the inner loop builds one graph, the outer one steps."""
    source = """
        for i in range(9):
            loss = 0
            for t in range(20):
                out, h = model(x[t], h)
                loss = loss + criterion(out, y[t])
            loss.backward()
            optimizer.step()
        """
    assert count(source, "mark_step") == 1


@pytest.mark.parametrize(
    "context",
    [
        "with torch.no_grad():",
        "with torch.inference_mode():",
        "with torch.set_grad_enabled(False):",
    ],
)
def test_evaluation_without_a_loader(context: str) -> None:
    source = f"""
        {context}
            for k in range(9):
                out = model(batches(k))
                total += out.sum().item()
        """
    lines = lines_of(source)
    assert lines[lines.index("xla.mark_step()") + 1] == "total += out.sum().item()"


def test_marked_source_is_left() -> None:
    source = HEAD + textwrap.dedent("""
        from xla_migrate import runtime as xla
        for i in range(9):
            loss.backward()
            xla.optimizer_step(optimizer)
            xla.mark_step()
        import torch_xla.core.xla_model as xm
        for i in range(9):
            loss.backward()
            xm.optimizer_step(optimizer, barrier=True)
            xm.mark_step()
        """)
    assert migrated(source) == source


def test_accelerate_is_left_alone() -> None:
    source = HEAD + textwrap.dedent("""
        from accelerate import Accelerator
        from xla_migrate import runtime as xla
        xla.patch_accelerate()
        accelerator = Accelerator()
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for batch in loader:
            accelerator.backward(model(batch).loss)
            optimizer.step()
        """)
    assert migrated(source) == source


def test_a_property_that_gives_the_optimizer() -> None:
    source = """
        import torch
        class Trainer:
            @property
            def optimizer(self):
                if self._optimizer is None:
                    self._optimizer = torch.optim.Adam(self.model.parameters())
                return self._optimizer
            def train_step(self, x):
                self.optimizer.zero_grad()
                self.model(x).mean().backward()
                self.optimizer.step()
        """
    after = migrated(textwrap.dedent(source))
    assert "xla.optimizer_step(self.optimizer)\n        xla.mark_step()" in after
