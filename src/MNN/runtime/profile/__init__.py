"""Where the time goes: profiles, roofs, traces, tuning."""
