"""XLA82x: SageMaker jobs on GPU instances."""
