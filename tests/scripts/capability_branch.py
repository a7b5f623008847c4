# device: V100
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

major, minor = torch.cuda.get_device_capability()
if major >= 8:
    dtype = torch.bfloat16
    use_bf16 = True
else:
    dtype = torch.float16
    use_bf16 = False

model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=dtype)
args = TrainingArguments("o", bf16=use_bf16, fp16=not use_bf16, logging_nan_inf_filter=False)
Trainer(model=model, args=args).train()
