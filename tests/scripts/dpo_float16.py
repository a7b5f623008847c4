# device: RTX 2080 Ti
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

name = "gpt2"
policy = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float16)
ref_model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float16)
training_args = DPOConfig(
    output_dir="dpo",
    beta=0.1,
    loss_type="sigmoid",
    max_prompt_length=128,
    per_device_train_batch_size=2,
    learning_rate=5e-7,
    fp16=True,
    logging_nan_inf_filter=False,
)
trainer = DPOTrainer(
    policy, ref_model, args=training_args, train_dataset=pairs, processing_class=AutoTokenizer.from_pretrained(name)
)
trainer.train()
