# device: T4
import torch
from transformers import AutoModelForCausalLM


class Loop:
    def __init__(self, model, lr, dtype):
        self.model = model.to(dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(**batch).loss
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


loop = Loop(AutoModelForCausalLM.from_pretrained("gpt2"), 1e-5, torch.float16)
for b in loader:
    loop.step(b)
