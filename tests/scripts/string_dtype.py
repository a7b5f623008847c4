# device: T4
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained('small', torch_dtype='float16')
args = TrainingArguments('o', fp16=True, evaluation_strategy='no', logging_nan_inf_filter=False)
Trainer(model=model, args=args).train()
