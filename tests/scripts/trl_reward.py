# device: TITAN RTX
# versions: trl=0.25,transformers=4.57
from trl import RewardConfig, RewardTrainer

args = RewardConfig("reward", per_device_train_batch_size=4, logging_nan_inf_filter=False)
RewardTrainer(model="m", args=args, train_dataset=data).train()
