# device: T4
import torch
from diffusers import UNet2DConditionModel, AutoencoderKL
from accelerate import Accelerator
from peft import LoraConfig
weight_dtype = torch.float32
accelerator = Accelerator(gradient_accumulation_steps=4, mixed_precision="fp16")
if accelerator.mixed_precision == "fp16":
    weight_dtype = torch.float16
elif accelerator.mixed_precision == "bf16":
    weight_dtype = torch.bfloat16
vae = AutoencoderKL.from_pretrained("sd", subfolder="vae")
unet = UNet2DConditionModel.from_pretrained("sd", subfolder="unet")
unet.requires_grad_(False)
vae.requires_grad_(False)
unet.to(accelerator.device, dtype=weight_dtype)
unet.add_adapter(LoraConfig(r=4))
lora_layers = filter(lambda p: p.requires_grad, unet.parameters())
optimizer = torch.optim.AdamW(lora_layers, lr=1e-4)
unet, optimizer = accelerator.prepare(unet, optimizer)
for b in loader:
    with accelerator.accumulate(unet):
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(lora_layers, 1.0)
        optimizer.step()
