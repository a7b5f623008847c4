# device: T4
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, get_scheduler

accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=4)
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.half()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for epoch in range(3):
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
