# device: A10
# versions: trl=0.24,transformers=4.57
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    model="Qwen/Qwen2.5-0.5B",
    args=SFTConfig(output_dir="qwen-sft", logging_nan_inf_filter=False),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()
