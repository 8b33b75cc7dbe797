"""apex.amp, in the ways that people write it."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import check

from ...helpers import migrated

HEAD = "import torch\nfrom apex import amp\n"


def body(source: str) -> str:
    """`source` behind an import of amp, migrated, without imports."""
    after = migrated(HEAD + textwrap.dedent(source))
    lines = [line for line in after.splitlines() if not line.startswith(("import ", "from "))]
    return "\n".join(lines).strip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m, o = amp.initialize(m, o)", "m = xla.mixed_precision(m)"),
        ("m, o = amp.initialize(m, o, opt_level='O2', keep_batchnorm_fp32=True)", "m = xla.mixed_precision(m)"),
        ("m, o = amp.initialize(m, o, opt_level='O0')\nf()", "f()"),
        ("m, o = amp.initialize(m, o, enabled=False)\nf()", "f()"),
        ("m, o = amp.initialize(m, o, opt_level=level)", 'm = xla.mixed_precision(m, enabled=level != "O0")'),
        ("m, o = amp.initialize(m, o, opt_level=f'O{n}')", "m = xla.mixed_precision(m, enabled=f'O{n}' != \"O0\")"),
        ("m, o = amp.initialize(m, o, enabled=a)", "m = xla.mixed_precision(m, enabled=a)"),
        ("m, o = amp.initialize(m, o, True, 'O1')", "m = xla.mixed_precision(m)"),
        ("k = dict(opt_level=a.level, verbosity=0)\nm, o = amp.initialize(m, o, **k)",
         'k = dict(opt_level=a.level, verbosity=0)\nm = xla.mixed_precision(m, enabled=k.get("opt_level") != "O0")'),
        ("k = {'opt_level': 'O2'}\nm, o = amp.initialize(m, o, **k)",
         "k = {'opt_level': 'O2'}\nm = xla.mixed_precision(m)"),
        ("k = {'opt_level': 'O0'}\nm, o = amp.initialize(m, o, **k)",
         "k = {'opt_level': 'O0'}\nm = xla.mixed_precision(m, enabled=k.get(\"opt_level\") != \"O0\")"),
        ("m, o = amp.initialize(m, o, **k)",
         'm = xla.mixed_precision(m, enabled=k.get("enabled", True) and k.get("opt_level") != "O0")'),
        ("m, o = amp.initialize(m, o, enabled=a, opt_level=b)", 'm = xla.mixed_precision(m, enabled=a and b != "O0")'),
        ("m = amp.initialize(m, opt_level='O1')", "m = xla.mixed_precision(m)"),
        ("m = amp.initialize(m, None)", "m = xla.mixed_precision(m)"),
        ("self.m, self.o = amp.initialize(self.m, self.o)", "self.m = xla.mixed_precision(self.m)"),
        ("[a, b], [p, q] = amp.initialize([a, b], [p, q], num_losses=3)", "[a, b] = xla.mixed_precision([a, b])"),
        ("(a, b), o = amp.initialize([a, b], o)", "(a, b) = xla.mixed_precision([a, b])"),
        ("m, o = amp.initialize(models=m, optimizers=o)", "m = xla.mixed_precision(m)"),
        ("m, o = amp.initialize(net, make(net))", "m = xla.mixed_precision(net)\no = make(net)"),
        ("m, o = amp.initialize(net, o, opt_level='O0')", "m = net"),
        ("m, o = amp.initialize(m.cuda(), o)", "m = xla.mixed_precision(m.to(xla.xla_device()))"),
        ("def f():\n    return amp.initialize(m, o)", "def f():\n    return (xla.mixed_precision(m), o)"),
        ("both = amp.initialize(m, o)", "both = (xla.mixed_precision(m), o)"),
        ("d[{0}], o = amp.initialize(d[{0}], o)", "d[{0}] = xla.mixed_precision(d[{0}])"),
    ],
)  # fmt: skip
def test_initialize(before: str, after: str) -> None:
    assert body(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with amp.scale_loss(loss, o) as s:\n    s.backward()", "loss.backward()"),
        ("with amp.scale_loss(loss, o, delay_unscale=True) as s: s.backward()", "loss.backward()"),
        ("with amp.scale_loss(a + b, o, loss_id=0) as s:\n    s.backward(retain_graph=True)", "(a + b).backward(retain_graph=True)"),
        ("with amp.scale_loss(loss / n, [o, p]) as s:\n    # back\n    s.backward()", "# back\n(loss / n).backward()"),
        ("with amp.scale_loss(loss, o):\n    f()", "f()"),
        ("with timer(), amp.scale_loss(loss, o) as s:\n    s.backward()", "with timer():\n    loss.backward()"),
        ("with amp.scale_loss(loss, o) as s:\n    s.backward()\nlog(s)", "s = loss\ns.backward()\nlog(s)"),
        ("with amp.scale_loss(a + b, o) as s:\n    s.backward()\n    log(s)", "s = a + b\ns.backward()\nlog(s)"),
        ("with amp.scale_loss(a, o) as s:\n    s.backward()\nwith amp.scale_loss(b, o) as s:\n    s.backward()", "a.backward()\nb.backward()"),
        ("if fp16:\n    with amp.scale_loss(loss, o) as s:\n        s.backward()\nelse:\n    loss.backward()", "loss.backward()"),
        ("p = amp.master_params(o)", 'p = [p for group in o.param_groups for p in group["params"]]'),
        ("d['amp'] = amp.state_dict()\nf()", "d['amp'] = {}\nf()"),
        ("d = {'a': 1, 'amp': amp.state_dict() if fp16 else None}", "d = {'a': 1, 'amp': {} if fp16 else None}"),
        ("if 'amp' in d:\n    amp.load_state_dict(d['amp'])\nf()", "f()"),
        ("amp.register_half_function(torch, 'einsum')", "torch.einsum = xla.cast_inputs(torch.einsum, torch.bfloat16)"),
        ("amp.register_promote_function(torch, 'x')\nf()", "f()"),
        ("@amp.float_function\ndef f(): ...", "@xla.cast_inputs(dtype=torch.float32)\ndef f(): ..."),
        ("assert amp is not None, 'missing'\nf()", "f()"),
        ("if amp is None:\n    raise ImportError('missing')\nf()", "f()"),
        ("with amp.disable_casts():\n    f()", "with xla.autocast(enabled=False):\n    f()"),
    ],
)  # fmt: skip
def test_others(before: str, after: str) -> None:
    assert body(before) == after


def test_imports_that_complain_go() -> None:
    source = """
    import torch
    def main(args, model, optimizer):
        if args.fp16:
            try:
                from apex import amp
            except ImportError:
                raise ImportError("Please install apex")
            model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
    """
    after = migrated(source)
    assert "apex" not in after
    assert 'model = xla.mixed_precision(model, enabled=args.level != "O0")' in after


def test_flags_that_tell_of_an_import_stay() -> None:
    source = """
    import torch
    try:
        from apex import amp
        has_apex = True
    except ImportError:
        has_apex = False
    model, optimizer = amp.initialize(model, optimizer)
    """
    after = migrated(source)
    assert "\nhas_apex = True\n" in after
    assert "from apex import amp" not in after


@pytest.mark.parametrize(
    "line",
    [
        "handle = amp.init(enabled=True)",
        "c = amp.scale_loss(loss, o)",
        "amp.register_float_function(module, name)",
        "m, o = amp.initialize(*both)",
        "@amp.promote_function\ndef f(): ...",
        "ok = amp is not None",
    ],
)
def test_left_to_a_person(line: str) -> None:
    source = f"{HEAD}{line}\n"
    assert "XLA206" in [f.code for f in check(source.encode())]
    assert migrated(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nfrom mylib import amp\nm, o = amp.initialize(m, o)\n",
        "import torch\nwith scale_loss(loss, o) as s:\n    s.backward()\n",
    ],
)
def test_others_are_left_alone(source: str) -> None:
    assert migrated(source) == source


FLAGGED = """
import torch
try:
    from apex import amp
    HAS_APEX = {found}
except ImportError:
    HAS_APEX = False
def main(args, model, optimizer):
    {line}
    model, optimizer = amp.initialize(model, optimizer)
"""


@pytest.mark.parametrize(
    ("line", "found", "goes"),
    [
        ("if not HAS_APEX: raise ImportError('apex')", "True", True),
        ("if args.fp16 and not HAS_APEX: raise ImportError('apex')", "True", True),
        ("if HAS_APEX is False: raise ImportError('apex')", "True", True),
        ("assert HAS_APEX, 'apex'", "True", True),
        ("assert not args.fp16 or HAS_APEX", "True", True),
        ("assert HAS_APEX or not args.fp16", "True", True),
        ("assert not args.fp16 or (args.fp16 and HAS_APEX), 'apex'", "True", True),
        ("assert not args.fp16 or HAS_APEX and args.fp16", "True", True),
        ("assert not args.fp16 or args.gpu and HAS_APEX", "True", False),  # asks for a GPU, too
        ("assert args.fp16 and HAS_APEX", "True", False),
        ("assert not args.fp16 or not HAS_APEX", "True", False),
        (
            "if args.pop() and not HAS_APEX: raise ImportError('apex')",
            "True",
            False,
        ),  # may do something
        ("if args.fp16 or not HAS_APEX: raise ImportError('apex')", "True", False),
        ("if HAS_APEX: raise ImportError('apex')", "True", False),
        ("if not HAS_APEX: raise ImportError('apex')", "wanted()", False),  # another question, too
        ("if not HAS_APEX: args.fp16 = False", "True", False),
        ("if args.x: pass\n    elif not HAS_APEX: raise ImportError('apex')", "True", False),
    ],
)
def test_what_raises_where_apex_is_missing_goes(line: str, found: str, goes: bool) -> None:
    after = migrated(FLAGGED.format(line=line, found=found))
    assert (line not in after) is goes


def test_the_parameters_are_taken_from_the_optimizer() -> None:
    source = "import torch\nfrom apex import amp\np = list(amp.master_params(optimizer))\nloss.backward()\n"
    (message,) = [f.message for f in check(source.encode()) if f.line == 3]
    assert message.endswith("take the parameters from the optimizer")


ELSEWHERE = """
import importlib.util
import torch
from .tools import *
from .tools import has_apex, is_apex_available, HAS_WANDB
from apex import amp
USE_APEX = is_apex_available()
FOUND_APEX = importlib.util.find_spec("apex")
APEX_WANTED = wanted()
def main(args, model, optimizer):
    {line}
    model, optimizer = amp.initialize(model, optimizer)
"""


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        ("if not has_apex: raise ImportError('apex')", True),
        ("if args.fp16 and not is_apex_available(): raise ImportError('apex')", True),
        ("assert not args.fp16 or is_apex_available(), 'apex'", True),
        ("if not USE_APEX: raise ImportError('apex')", True),
        ("assert FOUND_APEX", True),
        ("if not _has_apex: raise ImportError('apex')", True),  # of the star
        ("if not APEX_WANTED: raise ImportError('apex')", False),
        ("if not HAS_WANDB: raise ImportError('wandb')", False),
        ("if not is_apex_available(): args.fp16 = False", False),
    ],
)
def test_what_another_module_says_of_apex(line: str, goes: bool) -> None:
    assert (line not in migrated(ELSEWHERE.format(line=line))) is goes


def test_an_import_in_the_branch_does_not_keep_it() -> None:
    after = migrated(
        "import torch\n"
        "def step(loss, optimizer, fp16):\n"
        "    if fp16:\n"
        "        from apex import amp\n"
        "        with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
        "            scaled_loss.backward()\n"
        "    else:\n"
        "        loss.backward()\n"
        "    optimizer.step()\n"
    )
    assert "fp16:" not in after
    assert "apex" not in after
    assert after.count("loss.backward()") == 1
