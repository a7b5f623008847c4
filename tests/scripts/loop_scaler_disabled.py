# device: T4
import torch

model = build().half()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-4)
scaler = torch.amp.GradScaler("cuda", enabled=False)
for batch in loader:
    loss = model(batch)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
