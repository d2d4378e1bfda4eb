"""What people say when they have what they wanted, and nothing more is to be done. Above: `threshold`."""

from __future__ import annotations

__all__ = ["ENDINGS"]

ENDINGS = (
    "thanks!", "Thank you.", "thx", "ty", "Thanks a lot, that helps.", "Great, thank you so much!", "ok", "Okay.", "ok thanks", "k", "Cool.",
    "nice", "Perfect, that is what I wanted to know.", "That's all for today.", "That's it, bye.", "bye", "Goodbye!", "See you tomorrow.", "great",
    "Good to know.", "I see.", "Ah, got it.", "Understood, thanks.", "Hm, I expected more.", "wow", "lol", "Really?", "No, that is fine.", "no",
    "Nothing else, thank you.", "Never mind.", "I will think about it.", "Good job!", "You are quick.", "Alright then.", "Have a nice day!",
    "Danke!", "Danke dir, das war alles.", "Super, tschüss.", "Alles klar.", "Aha, gut zu wissen.", "Merci !", "Merci beaucoup, bonne journée.",
    "D'accord.", "Parfait, c'est tout.", "Gracias.", "Muchas gracias, eso es todo.", "Vale, adiós.", "Grazie mille!", "Va bene, ciao.", "Bedankt!",
    "Oké, dat was alles.", "Obrigado.", "Tack så mycket!", "Dziękuję.",
)  # fmt: skip
