"""What becomes of GradScalers, in the ways that people write them."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import check, migrate

from ...helpers import findings, migrated

HEAD = "import torch\nfrom torch.cuda.amp import GradScaler\n"


def body(source: str) -> str:
    """`source` behind an import of GradScaler, migrated, without imports."""
    after = migrated(HEAD + textwrap.dedent(source))
    lines = [line for line in after.splitlines() if not line.startswith(("import ", "from "))]
    return "\n".join(lines).strip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s.scale(loss).backward()", "loss.backward()"),
        ("s.scale(a + b).backward(retain_graph=True)", "(a + b).backward(retain_graph=True)"),
        ("s.scale(a if b else c).backward()", "(a if b else c).backward()"),
        ("s.scale(-loss).backward()", "(-loss).backward()"),
        ("x = s.scale(loss)", "x = loss"),
        ("x = s.scale([a, b])", "x = [a, b]"),
        ("x = s.scale(outputs=loss)", "x = loss"),
        ("torch.autograd.grad(s.scale(loss), x)", "torch.autograd.grad(loss, x)"),
        ("s.step(opt)", "xla.optimizer_step(opt)\n    xla.mark_step()"),
        ("s.step(optimizer=opt)", "xla.optimizer_step(opt)\n    xla.mark_step()"),
        ("r = s.step(opt, closure)", "r = xla.optimizer_step(opt, closure)\n    xla.mark_step()"),
        ("s.step(opt, k=1, **d)", "xla.optimizer_step(opt, k=1, **d)\n    xla.mark_step()"),
        ("s.unscale_(opt)\n    f()", "f()"),
        ("f(); s.update(); g()", "f(); g()"),
        ("s.update(new_scale=2.0)\n    f()", "f()"),
        ("for o in opts:\n        s.unscale_(o)\n    f()", "f()"),
        ("if amp:\n        s.update()\n    f()", "f()"),
        ("log(s.get_scale())", "log(1.0)"),
        ("log(s._scale.item())", "log(torch.tensor(1.0).item())"),
        ("if fp16:\n        s.scale(a).backward()\n    else:\n        a.backward()", "a.backward()"),
        ("if not fp16:\n        a.backward()\n    else:\n        s.scale(a).backward()", "a.backward()"),
        ("a = s.scale(a) if fp16 else a", "a = a"),
    ],
)  # fmt: skip
def test_uses(before: str, after: str) -> None:
    source = f"def f():\n    s = GradScaler()\n    {before}\n"
    assert body(source) == f"def f():\n    {after}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s = GradScaler()\ns.update()", ""),
        ("s = GradScaler(enabled=amp, init_scale=2.0**14)\ns.update()", ""),
        ("s = GradScaler() if amp else None\ns.update()", ""),
        ("s = None\nif amp:\n    s = GradScaler()\ns.update()", ""),
        ("s: GradScaler = GradScaler()\ns.update()", ""),
        ("s = t = GradScaler()\ns.update()\nt.update()", ""),
        ("s, t = GradScaler(), GradScaler()\ns.update()\nt.update()", ""),
        ("def f():\n    s = GradScaler()\n    g()", "def f():\n    g()"),
        ("s, t = GradScaler(), 3", "s, t = None, 3"),
        ("s = [GradScaler() for _ in range(2)]", "s = [xla.GradScaler() for _ in range(2)]"),
        ("def f():\n    return GradScaler()\n\nf()", "def f():\n    return None\n\nf()"),
        ("def f(s):\n    pass\n\nf(GradScaler())", "def f(s):\n    pass\n\nf(None)"),
        ("def f(s):\n    pass\n\ns = GradScaler()\nf(s)", "def f(s):\n    pass\n\ns = None\nf(s)"),
        ("class A:\n    def __init__(self):\n        self.s = GradScaler()\n        self.s.update()", "class A:\n    def __init__(self):\n        pass"),
        # handed to code that is not seen, or asked for: one that scales nothing
        ("s = GradScaler()", "s = xla.GradScaler()"),
        ("class A:\n    def __init__(self):\n        self.s = GradScaler()", "class A:\n    def __init__(self):\n        self.s = xla.GradScaler()"),
        ("s = GradScaler()\nprint(s)", "s = xla.GradScaler()\nprint(s)"),
        ("s = GradScaler(enabled=amp)\nfit(s)", "s = xla.GradScaler(enabled=amp)\nfit(s)"),
        ("s = GradScaler() if amp else None\nf(s is None)", "s = xla.GradScaler() if amp else None\nf(s is None)"),
        ("s = amp and GradScaler()\nd = {'s': s}", "s = amp and xla.GradScaler()\nd = {'s': s}"),
        ("def f():\n    return GradScaler()", "def f():\n    return xla.GradScaler()"),
    ],
)  # fmt: skip
def test_creations(before: str, after: str) -> None:
    assert body(before) == after


@pytest.mark.parametrize(
    "use",
    [
        "d = {'a': 1, 's': s.state_dict()}",
        "d = {'s': s.state_dict() if s else None, 'a': 1}",
        "d = dict(a=1, s=s.state_dict())",
        "d['s'] = s.state_dict()",
        "if s is not None:\n        d['s'] = s.state_dict()",
        "f(s.state_dict())",
        "return s.state_dict()",
        "x = s.state_dict()['scale']",
        "if 's' in d:\n        s.load_state_dict(d['s'])",
        "try:\n        s.load_state_dict(d)\n    except KeyError:\n        f()",
    ],
)
def test_its_state_stays_in_checkpoints(use: str) -> None:
    after = body(f"def f():\n    s = GradScaler()\n    s.update()\n    {use}\n")
    assert after == f"def f():\n    s = xla.GradScaler()\n    {use}"


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ("torch.cuda.amp.GradScaler(2.0**10, enabled=a)", "init_scale=2.0**10, enabled=a"),
        ("torch.cuda.amp.GradScaler(1, 2, 0.5, 100, a)", "init_scale=1, growth_factor=2, backoff_factor=0.5, growth_interval=100, enabled=a"),
        ("torch.amp.GradScaler('cuda', 2.0**10)", "init_scale=2.0**10"),
        ("torch.amp.GradScaler(device, enabled=a)", "enabled=a"),
        ("torch.amp.GradScaler(device=device, growth_interval=n)", "growth_interval=n"),
        ("torch.amp.GradScaler('cuda', **options)", "**options"),
        ("torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler('cuda', 1, 0.5, 2)", "init_scale=1, backoff_factor=0.5, growth_factor=2"),
        ("torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler(process_group=g)", ""),
    ],
)  # fmt: skip
def test_its_arguments_stay(made: str, kept: str) -> None:
    after = migrated(f"import torch\ns = {made}\nsave(s.state_dict())\n")
    assert f"\ns = xla.GradScaler({kept})\nsave(s.state_dict())\n" in after


@pytest.mark.parametrize(
    ("maker", "imports"),
    [
        ("torch.cuda.amp.GradScaler()", "import torch"),
        ("torch.amp.GradScaler('cuda')", "import torch"),
        ("torch.amp.grad_scaler.GradScaler()", "import torch"),
        ("amp.GradScaler()", "from torch.cuda import amp"),
        ("Scaler()", "from torch.cuda.amp import GradScaler as Scaler"),
        ("GradScaler()", "from torch.cuda.amp.grad_scaler import GradScaler"),
        ("ShardedGradScaler()", "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler"),
        ("Scaler()", "try:\n    from torch.amp import GradScaler as Scaler\nexcept ImportError:\n    from torch.cuda.amp import GradScaler as Scaler"),
    ],
)  # fmt: skip
def test_names(maker: str, imports: str) -> None:
    source = f"{imports}\nscaler = {maker}\nscaler.scale(loss).backward()\n"
    assert migrated(source).rstrip().endswith("loss.backward()")
    assert "Scaler" not in migrated(source)


SKIPPING = """
def f(s, opt, sched):
    s.scale(loss).backward()
    {before}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("old = s.get_scale()\n    s.update()\n    if s.get_scale() >= old:\n        sched.step()", "sched.step()"),
        ("old = s.get_scale()\n    new = s.get_scale()\n    if old > new:\n        log()\n    else:\n        sched.step()", "sched.step()"),
        ("old = s.get_scale()\n    if old == s.get_scale(): sched.step()", "sched.step()"),
        ("old = s.get_scale()\n    skip = (old != s.get_scale())\n    if not skip:\n        sched.step()", "sched.step()"),
        ("old = s.get_scale()\n    ok = old <= s.get_scale()\n    return ok", "return True"),
        ("old = s.get_scale()\n    if old <= s.get_scale() and epoch > 1:\n        sched.step()", "if epoch > 1:\n        sched.step()"),
        ("old = s.get_scale()\n    skip = old > s.get_scale()\n    if sched and not skip:\n        sched.step()", "if sched:\n        sched.step()"),
        ("old = s.get_scale()\n    if (a or b) and old <= s.get_scale():\n        sched.step()", "if (a or b):\n        sched.step()"),
        ("old = s.get_scale()\n    if a and b > 1 and old <= s.get_scale():\n        sched.step()", "if a and b > 1:\n        sched.step()"),
        ("old = s.get_scale()\n    if a or old > s.get_scale():\n        skip()", "if a:\n        skip()"),
        ("old = s.get_scale()\n    if a and old > s.get_scale():\n        skip()", ""),
        ("old = s.get_scale()\n    ok = old <= s.get_scale()\n    if a or ok:\n        sched.step()", "sched.step()"),
        ("old = s.get_scale()\n    ok = old <= s.get_scale()\n    if read() or ok:\n        sched.step()", "if read() or True:\n        sched.step()"),
        ("old = s.get_scale()\n    return a and old <= s.get_scale()", "return a and True"),
        ("if s.get_scale() < 128:\n        s.update()", ""),
        ("old = s.get_scale()\n    log(old)", "old = 1.0\n    log(old)"),
    ],
)  # fmt: skip
def test_skipped_steps(before: str, after: str) -> None:
    expected = f"def f(s, opt, sched):\n    loss.backward()\n    {after}".rstrip()
    assert body(SKIPPING.format(before=before)) == expected


def test_comments_stay_and_blocks_stay_valid() -> None:
    source = """
    def f(s, opt):
        # scale
        s.scale(loss).backward()  # backward
        if clip:
            # unscale first
            s.unscale_(opt)
        with timer():
            s.update()
    """
    assert (
        body(source)
        == textwrap.dedent(
            """
        def f(s, opt):
            # scale
            loss.backward()  # backward
            with timer():
                pass
        """
        ).strip()
    )


def test_is_enabled_is_what_enabled_was() -> None:
    source = """
    def f(args):
        s = GradScaler(enabled=args.amp)
        with torch.autocast("cuda", enabled=s.is_enabled()):
            s.scale(loss).backward()
    """
    assert "xla.autocast(enabled=args.amp)" in body(source)


def test_is_enabled_that_is_not_seen_is_left() -> None:
    source = "import torch\ndef f(s):\n    s.scale(loss).backward()\n    return s.is_enabled()\n"
    assert (4, "XLA204") in findings(source)
    assert migrated(source) == source


def test_a_wrapper_around_a_scaler() -> None:
    source = """
    class Scaler:
        def __init__(self):
            self._scaler = GradScaler()

        def __call__(self, loss, optimizer):
            self._scaler.scale(loss).backward()
            self._scaler.step(optimizer)
            self._scaler.update()

        def state_dict(self):
            return self._scaler.state_dict()

        def load_state_dict(self, state):
            self._scaler.load_state_dict(state)

    loss_scaler = Scaler()
    for x in range(3):
        loss_scaler(model(x), optimizer)
    """
    after = body(source)
    assert "_scaler.scale" not in after
    assert "_scaler.step" not in after
    assert "self._scaler = xla.GradScaler()" in after
    assert "for x in range(3):\n    loss_scaler(model(x), optimizer)" in after


def test_a_scaler_that_is_called_is_none_though_another_has_its_name() -> None:
    source = """
    def one(model, loader, optimizer, scaler):
        for x in loader:
            norm = scaler(model(x.cuda()).mean(), optimizer, parameters=model.parameters())

    def two(model, loader, optimizer, scaler):
        for x in loader:
            scaler.scale(model(x.cuda()).mean()).backward()
            scaler.step(optimizer)
            scaler.update()

    def main(model, loader, optimizer, is_first):
        if is_first:
            one(model, loader, optimizer, make_scaler())
        else:
            scaler = GradScaler()
            two(model, loader, optimizer, scaler)
    """
    after = body(source)
    assert "norm = scaler(model(" in after
    assert "scaler.step" not in after
    assert "scaler.scale" not in after


def test_a_class_of_its_own_is_left_to_a_person() -> None:
    source = (
        HEAD
        + "class Mine(GradScaler):\n    def step(self, o):\n        self._scale\n        super().step(o)\n"
    )
    assert findings(source) == [(3, "XLA204")]
    assert migrated(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "from sklearn.preprocessing import StandardScaler\nimport torch\nscaler = StandardScaler()\nx = scaler.fit(x)\nscaler.update()\n",
        "import torch\nscaler.scale(image)\n",
        "import torch\nscaler.update()\nscaler.step()\n",
        "import torch\ndef f(scaler: torch.cuda.amp.GradScaler) -> None: ...\n",
        "import torch\nscaler = torch.amp.GradScaler(enabled=False)\nfit(scaler)\n",
        "import torch\nscaler = torch.amp.GradScaler('cpu')\nfit(scaler)\n",
        "import torch\nassert torch.cuda.amp.GradScaler\n",
    ],
)
def test_others_are_left_alone(source: str) -> None:
    assert migrated(source) == source
    assert [f for f in check(source.encode()) if f.code == "XLA204"] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss = scaler.scale(loss)\nloss.backward()", "loss.backward()"),
        ("self.loss = scaler.scale(self.loss)\nself.loss.backward()", "self.loss.backward()"),
        ("scaled = scaler.scale(loss)\nscaled.backward()", "loss.backward()"),
        ("if amp:\n    loss = scaler.scale(loss)\nloss.backward()", "loss.backward()"),
        ("loss = y = scaler.scale(loss)\ny.backward()", "loss = y = loss\ny.backward()"),
    ],
)
def test_a_loss_that_keeps_its_name_is_not_assigned_to_itself(before: str, after: str) -> None:
    source = f"import torch\nscaler = torch.cuda.amp.GradScaler()\n{before}\nscaler.update()\n"
    assert migrated(source).replace("\nxla.mark_step()", "").strip().endswith(after)


_CLIPS = """
import torch
def train(model, loader, optimizer, amp):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x)).backward()
        {}
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    "clip",
    [
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)",
        "if amp: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "[p.grad.data.clamp_(-1, 1) for p in model.parameters()]",
        "model.clip_grad_norm_(1.0)",
    ],
)
def test_gradients_that_are_clipped_while_they_are_scaled(clip: str) -> None:
    found = [f for f in check(_CLIPS.format(clip).encode()) if "scaled" in f.message]
    assert [(f.line, f.code, f.safety) for f in found] == [(7, "XLA204", None)]
    left = migrate(_CLIPS.format(clip).encode()).left
    assert [(f.line, f.code) for f in left if "scaled" in f.message] == [(7, "XLA204")]


@pytest.mark.parametrize(
    "clip",
    [
        "scaler.unscale_(optimizer); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "loss = model(x).clamp(0, 1)",
        "p.grad.data.div_(2)",
        "optimizer.zero_grad()",
    ],
)
def test_gradients_that_are_not_clipped_while_they_are_scaled(clip: str) -> None:
    assert [f for f in check(_CLIPS.format(clip).encode()) if "scaled" in f.message] == []


def test_clipping_in_the_branch_without_a_scaler() -> None:
    source = """
import torch
def train(model, x, optimizer, amp):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    if amp:
        scaler.scale(model(x)).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        model(x).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""
    assert [f for f in check(source.encode()) if "scaled" in f.message] == []


@pytest.mark.parametrize(
    "made",
    [
        "torch.cuda.amp.GradScaler(enabled=use)",
        'torch.amp.GradScaler("cuda", enabled=use)',
        "torch.cuda.amp.GradScaler(1024.0, enabled=use and args.fast)",
    ],
)
def test_is_enabled_that_is_asked_where_the_option_is_not_known(made: str) -> None:
    """The runtime's scaler, which scales nothing, answers it; CUDA's is disabled on an XLA host."""
    source = f"""
import torch

def train(model, loader, optimizer, scaler):
    for x in loader:
        with torch.autocast("cuda", enabled=scaler.is_enabled()):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(args, model, loader, optimizer):
    use = args.amp
    scaler = {made}
    train(model, loader, optimizer, scaler)
"""
    result = migrated(source)
    assert "scaler = xla.GradScaler(" in result
    assert "xla.autocast(enabled=scaler.is_enabled())" in result
    assert "XLA204" not in [f.code for f in check(result.encode())]


@pytest.mark.parametrize(
    "shown",
    [
        '"stepped" if stepped else "skipped"',
        "not stepped",
        "f'{stepped}'",
        "[stepped][0]",
        "dict(stepped=stepped)",
    ],
)
def test_whether_a_step_was_taken_is_shown_later(shown: str) -> None:
    """What one rule replaces is in no text that another moves: the name of it is gone."""
    source = f"""
        import torch
        from torch.cuda.amp import GradScaler

        def train(model, loader, opt):
            s = GradScaler()
            for k, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                s.scale(loss).backward()
                scale = s.get_scale()
                s.step(opt)
                s.update()
                stepped = scale <= s.get_scale()
                print(k, loss.item(), {shown})
    """
    result = migrate(textwrap.dedent(source).encode()).data.decode()
    assert "stepped =" not in result
    for written in ("{stepped", "if stepped", "not stepped", "[stepped", "=stepped"):
        assert written not in result, result


@pytest.mark.parametrize(
    ("between", "use", "gone"),
    [
        ("", "scaled.backward()", True),
        ("", "scaled.backward(retain_graph=True)", True),
        ("", "scaled.backward()\n    print(scaled)", False),
        ("    loss = loss / 2\n", "scaled.backward()", False),
        ("    log(loss)\n", "scaled.backward()", False),
    ],
)
def test_a_name_for_what_is_scaled_goes_where_it_is_used_at_once(
    between: str, use: str, gone: bool
) -> None:
    after = migrated(
        "import torch\n"
        "def train(loss, optimizer):\n"
        '    scaler = torch.amp.GradScaler("cuda")\n'
        "    scaled = scaler.scale(loss)\n"
        f"{between}"
        f"    {use}\n"
        "    scaler.step(optimizer)\n"
        "    scaler.update()\n"
    )
    assert ("    scaled = loss\n" not in after) is gone
    assert (f"    {use.replace('scaled.b', 'loss.b')}\n" in after) is gone


def test_branches_with_a_name_for_what_is_scaled_become_one() -> None:
    after = migrated(
        "import torch\n"
        "def train(loss, optimizer, amp):\n"
        '    scaler = torch.amp.GradScaler("cuda", enabled=amp)\n'
        "    if amp:\n"
        "        scaled = scaler.scale(loss)\n"
        "        scaled.backward()\n"
        "        scaler.step(optimizer)\n"
        "        scaler.update()\n"
        "    else:\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    )
    assert "if amp" not in after
    assert after.count("loss.backward()") == after.count("optimizer_step(optimizer)") == 1
