"""What saving and loading checkpoints has to respect: replaced functions of torch, and other replicas."""
