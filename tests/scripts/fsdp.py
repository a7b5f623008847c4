# device: A100 80GB
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
args = TrainingArguments(
    "o", fp16=True, fsdp="full_shard auto_wrap", fsdp_config={"transformer_layer_cls_to_wrap": ["Block"]},
    logging_nan_inf_filter=False,
)
Trainer(model=model, args=args).train()
