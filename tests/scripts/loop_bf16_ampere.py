# device: RTX 3090
import torch

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
