# device: T4
import torch

scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
for batch in loader:
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        loss = model(batch).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # and update
    optimizer.zero_grad()
