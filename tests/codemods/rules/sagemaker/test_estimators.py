"""SageMaker's estimators: what the manuals do not show."""

from __future__ import annotations

import pytest

from tests.codemods.helpers import findings, migrated
from xla_codemods.analysis.sagemaker_instances import instead_of


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ml.p3.2xlarge", "ml.trn1.2xlarge"),
        ("ml.p3.16xlarge", "ml.trn1.32xlarge"),
        ("ml.p3dn.24xlarge", "ml.trn1.32xlarge"),
        ("ml.p4d.24xlarge", "ml.trn1.32xlarge"),
        ("ml.p5.48xlarge", "ml.trn2.48xlarge"),
        ("ml.p5.4xlarge", "ml.trn1.2xlarge"),
        ("ml.g4dn.xlarge", "ml.trn1.2xlarge"),
        ("ml.g5.48xlarge", "ml.trn1.32xlarge"),
        ("ml.m5.xlarge", ""),
        ("ml.trn1.32xlarge", ""),
        ("p4d.24xlarge", ""),
        ("local_gpu", ""),
    ],
)
def test_instances(old: str, new: str) -> None:
    assert instead_of(old) == new


def test_a_type_that_an_endpoint_has_too_is_changed_where_it_trains() -> None:
    source = """\
        import os
        from sagemaker.pytorch import PyTorch as P
        TYPE = "ml.g5.xlarge"
        a = P(entry_point="t.py", instance_type=TYPE, image_uri=image)
        a.deploy(instance_type=TYPE)
    """
    new = migrated(source)
    assert 'TYPE = "ml.g5.xlarge"' in new
    assert 'P(entry_point="t.py", instance_type="ml.trn1.2xlarge", image_uri=image)' in new
    assert "deploy(instance_type=TYPE)" in new


@pytest.mark.parametrize(
    ("distribution", "becomes"),
    [
        ('{"mpi": {"enabled": True}}', '{"torch_distributed": {"enabled": True}}'),
        ('{"pytorchddp": {"enabled": True}}', '{"torch_distributed": {"enabled": True}}'),
        ('{"torch_distributed": {"enabled": True}}', '{"torch_distributed": {"enabled": True}}'),
        ("chosen", "chosen"),
    ],
)
def test_distributions(distribution: str, becomes: str) -> None:
    source = f"""\
        import sagemaker
        e = sagemaker.pytorch.PyTorch(instance_type="ml.p4d.24xlarge", image_uri=i, distribution={distribution})
    """
    assert f'instance_type="ml.trn1.32xlarge", image_uri=i, distribution={becomes})' in migrated(
        source
    )


def test_what_cannot_be_known_is_left_and_said() -> None:
    source = """\
        from sagemaker.pytorch import PyTorch
        a = PyTorch(instance_type="ml.p4d.24xlarge", distribution={"smdistributed": {"modelparallel": {}}})
        b = PyTorch(instance_type="ml.p4d.24xlarge", **more)
        c = PyTorch(instance_type=f"ml.{kind}")
    """
    assert findings(source) == [(2, "XLA821"), (3, "XLA821")]
    assert 'instance_type="ml.p4d.24xlarge", **more' in migrated(source)


def test_the_gpu_compiler_goes_and_os_is_imported_once() -> None:
    source = """\
        from sagemaker.huggingface import HuggingFace, TrainingCompilerConfig
        a = HuggingFace(instance_type="ml.p3.2xlarge", compiler_config=TrainingCompilerConfig(), py_version="py310")
        b = HuggingFace(instance_type="ml.p3.2xlarge")
    """
    new = migrated(source)
    assert new.count("import os") == 1
    assert "compiler_config" not in new
    assert new.count('image_uri=os.environ["TRAINIUM_IMAGE"]') == 2


def test_fields_of_other_classes_are_none_of_ours() -> None:
    source = """\
        import torch
        def PyTorch(**k): pass
        PyTorch(instance_type="ml.p4d.24xlarge", hyperparameters={"fp16": True}, use_spot_instances=True)
    """
    assert findings(source) == []


def test_hyperparameters_given_in_the_call() -> None:
    source = """\
        from sagemaker.pytorch import PyTorch
        a = PyTorch(instance_type="ml.trn1.32xlarge", hyperparameters={"lr": 0.1, 'fp16': "True"})
    """
    assert '{"lr": 0.1, \'bf16\': "True"}' in migrated(source)
