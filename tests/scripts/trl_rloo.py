# device: TITAN RTX
# versions: trl=0.25,transformers=4.57
from trl import RLOOConfig, RLOOTrainer

args = RLOOConfig("rloo", per_device_train_batch_size=4, logging_nan_inf_filter=False)
RLOOTrainer(model="m", args=args, train_dataset=data).train()
