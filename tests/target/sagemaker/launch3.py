"""A launch script of the SDK v3: `launch3.py HOSTS FAIL`."""

from __future__ import annotations

import os
import sys

from sagemaker.core.training.configs import CheckpointConfig, Compute, SourceCode
from sagemaker.train.distributed import Torchrun
from sagemaker.train.model_trainer import ModelTrainer

hosts, fail = int(sys.argv[1]), int(sys.argv[2])
trainer = ModelTrainer(
    training_image="team/train:1",
    role="train-role",
    source_code=SourceCode(
        source_dir=os.path.join(os.path.dirname(os.path.abspath(__file__)), "job"),
        entry_script="train.py",
    ),
    compute=Compute(instance_type="ml.trn1.32xlarge", instance_count=hosts),
    distributed=Torchrun(),
    hyperparameters={"epochs": 2, "fail": fail},
    environment={"NEURON_CC_FLAGS": "--target=trn1 --optlevel=1"},
    checkpoint_config=CheckpointConfig(s3_uri="s3://bucket/checkpoints"),
    base_job_name="job",
)
trainer.train(logs=False)
