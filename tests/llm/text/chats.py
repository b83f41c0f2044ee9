"""Conversations, and templates that do to messages what those of known families do, in the same dialect."""

from __future__ import annotations

from typing import Any

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place, “now” & <later>",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "integer", "enum": [1, 2]}},
            "required": ["place"],
        },
    },
}
CALL = {
    "type": "function",
    "id": "call00001",
    "function": {"name": "weather", "arguments": {"place": "Köln", "days": 2}},
}
USER = {"role": "user", "content": "  How warm is it in Köln?\n"}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one": [USER],
    "system": [{"role": "system", "content": "Be brief."}, USER],
    "several": [USER, {"role": "assistant", "content": "Warm. "}, {"role": "user", "content": "And <there>?"}],
    "answered": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nWarm."}],
    "tools": [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": '{"celsius": 21}'},
    ],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "text", "text": "this"}]}],
    "two users": [USER, USER],
    "nothing": [],
}
SETTINGS: list[dict[str, Any]] = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "tools": [TOOL]},
    {"add_generation_prompt": True, "enable_thinking": False},
]
TEXTS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
TEMPLATES = {
    "chatml": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = message.content | map(attribute='text') | join('') %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role }}
        {%- if loop.index0 > ns.last_query_index and (loop.last or thought) %}
            {{- '\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '\\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' }}
            {%- if tool_call.arguments is string %}
                {{- tool_call.arguments }}
            {%- else %}
                {{- tool_call.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' ~ content ~ '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- elif not (message.role == 'system' and tools) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}""",
    "headers": """{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and tools %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one call at once") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' + tool_call.arguments | tojson + "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}""",
    "instructions": """{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}
{{ ' ' + message['content']|trim + eos_token }}
{% else %}
{{ raise_exception('Only user and assistant roles are supported!') }}
{% endif %}
{% endfor %}""",
    "turns": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}""",
    "macros": """{%- macro typed(param) -%}
    {%- if param.enum is defined and param.enum -%}{{ param.enum | join(" | ") }}
    {%- elif param.type == "integer" -%}number{%- else -%}{{ param.type }}{%- endif -%}
{%- endmacro -%}
{%- if tools -%}{{ "namespace functions {\\n" }}
{%- for tool in tools %}
{%- set f = tool.function %}
{{- "// " + f.description + "\\ntype " + f.name + " = (_: {\\n" }}
{%- for name, spec in f.parameters.properties.items() %}
{{- "  " + name + ("" if name in f.parameters.required else "?") + ": " + typed(spec) + ",\\n" }}
{%- endfor %}
{{- "}) => any;\\n" }}
{%- endfor %}{{ "}" }}{%- endif -%}
{%- for message in messages if message.role != 'system' %}
{%- if loop.index > 2 %}{{- "[...]" }}{% break %}{% endif %}
{%- if message.content is not string %}{% continue %}{% endif %}
{{- "<|" ~ message.role|upper ~ "|>" ~ message.content.strip().replace('?', '!') ~ eos_token }}
{%- if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}{% endif %}
{%- endfor %}
{%- for key in messages[0]|default({})|dictsort %}{{ key[0] }},{% endfor %}
{{- messages | selectattr('role', 'equalto', 'user') | list | length }}""",
}
