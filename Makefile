venv:
	@tools/setup venv
.PHONY: venv
