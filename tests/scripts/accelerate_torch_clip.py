# device: T4
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net, optimizer = accelerator.prepare(net, optimizer)
for x, y in batches:
    loss = ((net(x) - y) ** 2).mean()
    accelerator.backward(loss)
    torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
    optimizer.step()
