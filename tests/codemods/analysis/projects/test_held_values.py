"""What another module of the project makes: methods of it are methods, functions of modules are not."""

from __future__ import annotations

import pytest

from .test_project import after

SHARED = """
    import torch
    from torch import nn

    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Holder:
        net = nn.Linear(2, 2)

        def cuda(cls):
            return cls

    def cuda():
        return 1
    """


@pytest.mark.parametrize(
    ("imports", "before", "expected"),
    [
        ("from shared import model", "model.cuda()", "model.to(xla.xla_device())"),
        ("import shared", "shared.model.cuda()", "shared.model.to(xla.xla_device())"),
        ("import shared as s", "s.model.cuda()", "s.model.to(xla.xla_device())"),
        ("from handed import model", "model.cuda()", "model.to(xla.xla_device())"),
        ("from shared import Holder", "Holder.net.cuda()", "Holder.net.to(xla.xla_device())"),
        ("from shared import Holder", "Holder.cuda()", "Holder.cuda()"),
        ("import shared", "shared.cuda()", "shared.cuda()"),
        ("from elsewhere import model", "model.cuda()", "model.cuda()"),
    ],
)
def test_methods_of_what_another_module_makes(imports: str, before: str, expected: str) -> None:
    files = {
        "shared.py": SHARED,
        "handed.py": "from shared import model\n",
        "train.py": f"import torch\n{imports}\n{before}\nx = torch.ones(1).cuda()\n",
    }
    text = after(files)["train.py"]
    assert expected in text.splitlines()


def test_an_optimizer_that_another_module_makes_steps() -> None:
    train = """
        import torch
        from shared import model, optimizer

        for x in range(3):
            loss = model(torch.ones(4, 3).cuda()).sum()
            loss.backward()
            optimizer.step()
        """
    text = after({"shared.py": SHARED, "train.py": train})["train.py"]
    assert "xla.optimizer_step(optimizer)" in text
