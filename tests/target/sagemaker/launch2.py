"""A launch script of the SDK v2: `launch2.py HOSTS FAIL`."""

from __future__ import annotations

import os
import sys

import sagemaker
from sagemaker.pytorch import PyTorch

hosts, fail = int(sys.argv[1]), int(sys.argv[2])
estimator = PyTorch(
    entry_point="train.py",
    source_dir=os.path.join(os.path.dirname(os.path.abspath(__file__)), "job"),
    role=sagemaker.get_execution_role(),
    instance_count=hosts,
    instance_type="ml.trn1.32xlarge",
    image_uri="team/train:1",
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"epochs": 2, "fail": fail},
    environment={"NEURON_CC_FLAGS": "--target=trn1 --optlevel=1"},
    use_spot_instances=True,
    max_run=3600,
    max_wait=7200,
    checkpoint_s3_uri="s3://bucket/checkpoints",
    base_job_name="job",
)
estimator.fit({"train": "s3://bucket/data"})
