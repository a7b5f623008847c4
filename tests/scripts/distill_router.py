# device: P100
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import AutoModelForCausalLM


class Router(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 4)

    def forward(self, x):
        return self.gate(x).softmax(-1)


class Distiller:
    def __init__(self):
        self.teacher = AutoModelForCausalLM.from_pretrained("teacher", torch_dtype=torch.float16).eval()
        self.student = AutoModelForCausalLM.from_pretrained("student", torch_dtype=torch.float16)
        self.router = Router(512).half()

    def train(self, loader):
        optimizer = torch.optim.AdamW(
            list(self.student.parameters()) + list(self.router.parameters()), lr=2e-5
        )
        scaler = torch.amp.GradScaler("cuda", enabled=True)
        for batch in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.loss(batch)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
