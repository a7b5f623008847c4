# device: V100
import torch

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
