"""The subjects that kvlaw can open by name, each module importing what it needs only when it is used."""
