# device: TITAN RTX
# versions: trl=0.25,transformers=4.57
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("grpo", per_device_train_batch_size=4, logging_nan_inf_filter=False)
GRPOTrainer(model="m", args=args, train_dataset=data).train()
