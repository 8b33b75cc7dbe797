"""`--parallel spmd`: where one process is told to drive all devices."""

from __future__ import annotations

import textwrap

from xla_codemods.engine import Options, check, migrate

SPMD = Options(parallel="spmd")


def migrated(source: str) -> str:
    result = migrate(textwrap.dedent(source).encode(), SPMD).data
    assert migrate(result, SPMD).data == result, "a second run changes something"
    return result.decode()


DDP = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def main():
        model = DDP(torch.nn.Linear(2, 1).cuda())
        model(torch.ones(1, 2).cuda()).sum().backward()

    if __name__ == "__main__":
        main()
"""


def test_a_script_for_ddp_keeps_the_meaning_of_its_batch_size() -> None:
    lines = migrated(DDP).splitlines()
    at = lines.index('if __name__ == "__main__":')
    assert lines[at + 1 :] == ["    xla.use_spmd(batch_per_device=True)", "    main()"]


def test_a_script_of_one_device_has_its_batches_split() -> None:
    source = """
        \"\"\"Trains.\"\"\"
        import torch
        model = torch.nn.Linear(2, 1).cuda()
        model(torch.ones(1, 2).cuda()).sum().backward()
    """
    lines = migrated(source).splitlines()
    assert (
        lines.index("xla.use_spmd()")
        == lines.index("model = torch.nn.Linear(2, 1).to(xla.xla_device())") - 1
    )


def test_modules_of_a_project_do_not_begin_anything() -> None:
    source = "import torch\ndef step(loss):\n    loss.cuda().backward()\n"
    assert "use_spmd" not in migrated(source)


def test_without_the_option_nothing_is_said_of_it() -> None:
    assert "XLA612" not in {f.code for f in check(textwrap.dedent(DDP).encode())}
    assert "XLA612" in {f.code for f in check(textwrap.dedent(DDP).encode(), SPMD)}


def test_a_program_that_calls_its_function_without_a_test_of_its_name() -> None:
    source = DDP.replace('if __name__ == "__main__":\n        main()', "print(1)\n    main()")
    assert "__name__" not in source
    lines = migrated(source).splitlines()
    assert lines[lines.index("print(1)") - 1] == "xla.use_spmd(batch_per_device=True)"


def test_what_is_called_through_another_function_counts() -> None:
    source = DDP.replace(
        'if __name__ == "__main__":\n        main()', "def run():\n        main()\n\n    run()"
    )
    lines = migrated(source).splitlines()
    assert lines[lines.index("run()") - 1] == "xla.use_spmd(batch_per_device=True)"


def test_a_module_that_calls_what_does_not_train_begins_nothing() -> None:
    source = (
        "import torch\ndef step(loss):\n    loss.cuda().backward()\ndef note():\n    pass\nnote()\n"
    )
    assert "use_spmd" not in migrated(source)
