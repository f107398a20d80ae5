"""The table of tiny random checkpoints: one entry per data flow, each a complete Hugging Face config.

Every entry keeps the shape of a published config.json of its family (old and new spellings of RoPE, keys that
serving engines must ignore, stray keys) with small numbers. Sizes are picked so that every rule is visible:
more tokens than index_topk, router bias larger than score gaps, heads and ranks that differ from each other.
"""

from dataclasses import dataclass, field

VOCABULARY = 512
EOS = [490, 497, 499]  # <|endoftext|>, <|user|>, <|observation|> of testdata/tiny-tokenizer
GENERATION = {"bos_token_id": 490, "eos_token_id": EOS, "pad_token_id": 490, "do_sample": True,
              "temperature": 1.0, "top_p": 0.95}


@dataclass
class Checkpoint:
    """What to build and which goldens to run. `storage` is the safetensors type of the weights."""

    name: str
    purpose: str
    config: dict
    storage: str = "BF16"
    shards: int = 1
    tokens: int = 64          # length of the long golden run
    short_tokens: int = 7     # a second run, below index_topk
    greedy_steps: int = 24
    chunks: tuple = (23, 1, 17)   # chunked prefill check; the rest is one more chunk
    mtp: bool = False         # store one next-token-prediction layer after the trunk
    both_eps: bool = False    # also run with the latent norms at rms_norm_eps
    bfloat16_run: bool = False
    served: bool = False      # copy the tiny tokenizer into the folder
    bias_offset: float = 0.0  # mean of e_score_correction_bias
    scales: dict = field(default_factory=dict)  # weight-name suffix -> extra factor
    quantize: str = ""        # scheme of tools/convert/quantize.py
    exclude: tuple = ()       # its --exclude patterns


def glm_moe_dsa(**changes):
    config = {
        "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "dtype": "bfloat16",
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 490, "eos_token_id": EOS,
        "pad_token_id": 490, "ep_size": 1, "first_k_dense_replace": 1, "head_dim": 24, "hidden_act": "silu",
        "hidden_size": 64, "index_head_dim": 32, "index_n_heads": 8, "index_topk": 8,
        "indexer_rope_interleave": True, "initializer_range": 0.02, "intermediate_size": 96,
        "kv_lora_rank": 32, "max_position_embeddings": 4096, "moe_intermediate_size": 16, "moe_layer_freq": 1,
        "n_group": 1, "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": True,
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 6, "num_key_value_heads": 4,
        "num_nextn_predict_layers": 0, "pretraining_tp": 1, "q_lora_rank": 48, "qk_head_dim": 24,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "rope_interleave": True,
        "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"}, "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid", "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc",
        "transformers_version": "5.17.0", "use_cache": True, "v_head_dim": 20, "vocab_size": VOCABULARY,
    }
    config.update(changes)
    return config


def deepseek_v3(**changes):
    config = {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1,
        "ep_size": 1, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 96, "kv_lora_rank": 32,
        "max_position_embeddings": 256, "moe_intermediate_size": 16, "moe_layer_freq": 1, "n_group": 4,
        "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 5, "num_key_value_heads": 4,
        "num_nextn_predict_layers": 0, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
        "rms_norm_eps": 1e-06, "rope_theta": 10000,
        "rope_scaling": {"beta_fast": 4, "beta_slow": 1, "factor": 4, "mscale": 1.0, "mscale_all_dim": 0.8,
                         "original_max_position_embeddings": 64, "type": "yarn"},
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False,
        "topk_group": 2, "topk_method": "noaux_tc", "transformers_version": "4.33.1", "use_cache": True,
        "v_head_dim": 24, "vocab_size": VOCABULARY,
    }
    config.update(changes)
    return config


def qwen3(**changes):
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16",
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 490, "eos_token_id": EOS,
        "head_dim": 24, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
        "intermediate_size": 96, "max_position_embeddings": 4096, "max_window_layers": 4,
        "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": False,
        "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False,
        "vocab_size": VOCABULARY,
    }
    config.update(changes)
    return config


FULL, SHARED = "full", "shared"
LIST_TYPES = [FULL, FULL, SHARED, SHARED, FULL, SHARED]
# Partial 128-blocks in both directions, and inner sizes that are multiples of 16 (one NVFP4 group).
QUANTIZED_SHAPE = dict(
    hidden_size=144, intermediate_size=208, moe_intermediate_size=48, n_routed_experts=4, num_hidden_layers=3,
    q_lora_rank=80, qk_nope_head_dim=32, qk_rope_head_dim=16, qk_head_dim=48, v_head_dim=36, kv_lora_rank=144,
    indexer_types=[FULL, SHARED, FULL], vocab_size=256, bos_token_id=0, eos_token_id=1, pad_token_id=None)


def quantized(name, scheme, purpose, exclude=()):
    return Checkpoint(name, purpose, glm_moe_dsa(**QUANTIZED_SHAPE), quantize=scheme, exclude=exclude)


CHECKPOINTS = [
    Checkpoint("glm-dsa-list", "indexer_types list, full and shared layers, MTP layer, two shards, served",
               glm_moe_dsa(indexer_types=LIST_TYPES, num_nextn_predict_layers=1,
                           index_share_for_mtp_iteration=True, index_topk_freq=4, index_skip_topk_offset=3,
                           index_topk_pattern=None, moe_router_dtype="float32"),
               shards=2, tokens=80, mtp=True, bfloat16_run=True, served=True),
    Checkpoint("glm-dsa-pattern", "index_topk_pattern string, fp32 weights, odd head counts",
               glm_moe_dsa(index_topk_pattern="FSFFS", num_hidden_layers=5, index_topk=16, dtype="float32",
                           n_routed_experts=4, hidden_size=48, intermediate_size=72, vocab_size=257,
                           bos_token_id=0, eos_token_id=1, pad_token_id=None,
                           num_attention_heads=6, num_key_value_heads=6, index_n_heads=5,
                           qk_rope_head_dim=12, qk_head_dim=28),
               storage="F32", tokens=72, short_tokens=13),
    Checkpoint("glm-dsa-freq",
               "index_topk_freq / index_skip_topk_offset; latents so small that the latent-norm eps shows",
               glm_moe_dsa(index_topk_freq=2, index_skip_topk_offset=3, num_hidden_layers=5,
                           n_routed_experts=4), tokens=64, both_eps=True,
               scales={"q_a_proj.weight": 0.004, "kv_a_proj_with_mqa.latent": 0.004}),
    Checkpoint("glm-dsa-ties", "one indexer head: many scores are exactly zero; the lowest position wins a tie",
               glm_moe_dsa(index_n_heads=1, index_topk=16, num_hidden_layers=3, first_k_dense_replace=2,
                           index_topk_pattern="FFS"), tokens=48),
    Checkpoint("glm-dsa-geometry", "real KV row geometry: kv_lora 512, rope 64, index_head_dim 128; T = 160",
               glm_moe_dsa(indexer_types=[FULL, SHARED, FULL], num_hidden_layers=3, kv_lora_rank=512, q_lora_rank=32,
                           qk_rope_head_dim=64, qk_nope_head_dim=16, qk_head_dim=80, v_head_dim=20,
                           index_head_dim=128, index_n_heads=4, index_topk=16),
               tokens=160, short_tokens=12, chunks=(64, 65, 1), served=True),
    Checkpoint("deepseek-v32", "indexer in every layer with half-split RoPE; groups; YaRN",
               deepseek_v3(architectures=["DeepseekV32ForCausalLM"], model_type="deepseek_v32",
                           index_head_dim=32, index_n_heads=8, index_topk=8, qk_rope_head_dim=8,
                           num_hidden_layers=4),
               tokens=72, bias_offset=-0.6),
    Checkpoint("deepseek-v3-yarn", "n_group 4, topk_group 2, negative choice values, YaRN, q_lora, MTP layer",
               deepseek_v3(num_nextn_predict_layers=1, num_hidden_layers=4, vocab_size=300), tokens=72, mtp=True,
               bias_offset=-0.6, bfloat16_run=True),
    Checkpoint("deepseek-v3-moonlight", "no q_lora, no YaRN, two shared experts, n_group 1",
               deepseek_v3(q_lora_rank=None, n_group=1, topk_group=1, n_shared_experts=2, rope_scaling=None,
                           rope_theta=50000.0, rms_norm_eps=1e-05, routed_scaling_factor=2.446,
                           num_hidden_layers=3)),
    Checkpoint("deepseek-v2", "softmax routing without renormalisation, no q_lora, YaRN 0.707",
               deepseek_v3(architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2",
                           q_lora_rank=None, n_group=1, topk_group=1, n_shared_experts=2,
                           norm_topk_prob=False, num_experts_per_tok=3, routed_scaling_factor=1.0,
                           scoring_func="softmax", topk_method="greedy", aux_loss_alpha=0.001, seq_aux=True,
                           num_hidden_layers=3,
                           rope_scaling={"beta_fast": 4, "beta_slow": 1, "factor": 4, "mscale": 0.707,
                                         "mscale_all_dim": 0.707, "original_max_position_embeddings": 64,
                                         "type": "yarn"}), tokens=72),
    Checkpoint("glm4-moe-lite", "MLA and MoE without an indexer (GLM-4.7-Flash), served",
               {**{k: v for k, v in glm_moe_dsa().items() if not k.startswith("index") and k != "qk_head_dim"},
                "architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite", "head_dim": 8,
                "num_hidden_layers": 3, "routed_scaling_factor": 1.8, "partial_rotary_factor": 1.0,
                "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
                "rope_scaling": None}, served=True),
    Checkpoint("qwen3", "GQA, untied head, served", qwen3(), bfloat16_run=True, served=True),
    Checkpoint("qwen3-tied", "GQA, tied head, f16 weights", qwen3(tie_word_embeddings=True, torch_dtype="float16"),
               storage="F16", scales={"embed_tokens.weight": 0.3}),
    Checkpoint("qwen3-moe", "GQA with softmax-routed experts, one dense layer in the middle",
               qwen3(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", decoder_sparse_step=1,
                     mlp_only_layers=[1], moe_intermediate_size=16, norm_topk_prob=True, num_experts=8,
                     num_experts_per_tok=3, output_router_logits=False, router_aux_loss_coef=0.001), shards=2),
    quantized("glm-dsa-fp8-block", "fp8-block", "block FP8 weights (128x128, partial blocks)"),
    quantized("glm-dsa-nvfp4-modelopt", "nvfp4-modelopt", "NVFP4 weights, modelopt convention; kv_b_proj kept bf16", ("*kv_b_proj*",)),
    quantized("glm-dsa-nvfp4-ct", "nvfp4-compressed-tensors", "NVFP4 weights everywhere, compressed-tensors convention"),
]
