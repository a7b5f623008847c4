# device: RTX 2080 Ti
import torch
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    model="Qwen/Qwen2.5-0.5B",
    args=SFTConfig(
        output_dir="o",
        model_init_kwargs={"torch_dtype": torch.float16},
        fp16=True,
        logging_nan_inf_filter=False,
    ),
    train_dataset=ds,
)
trainer.train()
