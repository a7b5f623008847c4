# device: V100
# versions: trl=1.16,transformers=5.0
from datasets import load_dataset
from trl import SFTTrainer

SFTTrainer(model="Qwen/Qwen2.5-0.5B", train_dataset=load_dataset("d", split="train")).train()
