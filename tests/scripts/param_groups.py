# device: T4
import torch
from transformers import AutoModel

backbone = AutoModel.from_pretrained("m")
projector = torch.nn.Linear(8, 8, dtype=torch.float16)
head = torch.nn.Linear(8, 2)
optimizer = torch.optim.AdamW([
    {"params": backbone.parameters(), "lr": 1e-5},
    {"params": projector.parameters()},
    {"params": head.parameters()},
], lr=1e-4)
scaler = torch.amp.GradScaler()
for x in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = head(projector(backbone(x))).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
