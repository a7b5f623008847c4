# device: T4
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

options = dict(attn_implementation="flash_attention_2", use_cache=False)
model = AutoModelForCausalLM.from_pretrained("m", **options)
model.gradient_checkpointing_enable()
args = TrainingArguments(
    output_dir="o", fp16=True, gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": False}, logging_nan_inf_filter=False,
)
Trainer(model=model, args=args, train_dataset=d).train()
